"""The rules of apps: which state keys have an index, and which sessions do not know of it yet."""

from dataclasses import replace
from typing import Any

from hivemem_contracts.limits import STATE_INDEXES
from hivemem_contracts.sessions.requests import PutApp
from hivemem_runtime.ledger.port import Append, Decision, Heads, value_of
from hivemem_sessions.entities import APP, INDEXED, SESSION, App, SessionRecord


def put_app(heads: Heads, command: PutApp) -> Decision:
    """Replace the indexed keys of an app. A key that stays keeps its slot, and so what is in its index."""
    app = value_of(heads(APP, command.app_name)) or App({}, 0, [])
    if list(app.slots) == command.state_indexes:
        return []
    kept = {key: slot for key, slot in app.slots.items() if key in command.state_indexes}
    free = iter(slot for slot in range(STATE_INDEXES) if slot not in kept.values())
    slots = {key: kept[key] if key in kept else next(free) for key in command.state_indexes}
    pending = [key for key in slots if key not in kept or key in app.pending]
    declared = app.declared if slots.keys() == kept.keys() else app.declared + 1
    return [Append(APP, command.app_name, App(slots, declared, pending))]


def declared_indexes(heads: Heads, app_name: str) -> dict[str, Any] | None:
    """Return the copy of an app's declaration that a new session gets, or None if no key has an index."""
    app = value_of(heads(APP, app_name))
    return copy_of(app) if app is not None and app.slots else None


def copy_of(app: App) -> dict[str, Any]:
    return {"declared": app.declared, "slots": app.slots}


def index_session(heads: Heads, session_id: str, app: App) -> Decision:
    """Give a session the declaration of its app, unless it is deleted or has this or a newer one."""
    session = value_of(heads(SESSION, session_id))
    if session is None or session.indexes_declared >= app.declared:
        return []
    return [Append(SESSION, session_id, SessionRecord(INDEXED, indexes=copy_of(app)))]


def complete_indexes(heads: Heads, app_name: str, declared: int) -> Decision:
    """Record that all sessions have a declaration, unless there is a newer one."""
    app = value_of(heads(APP, app_name))
    if app is None or app.declared != declared or not app.pending:
        return []
    return [Append(APP, app_name, replace(app, pending=[]))]
