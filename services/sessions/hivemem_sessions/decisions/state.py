"""The rules of state deltas: the scope of each key, and the size limit of a scope."""

from operator import methodcaller

import orjson

from hivemem_contracts.errors import InvalidRequest, TooLarge
from hivemem_contracts.limits import STATE_BYTES
from hivemem_contracts.sessions.requests import SetState
from hivemem_runtime.ledger.port import Append, Decision, Heads
from hivemem_sessions.decisions.preconditions import expect, find_session, require_writable
from hivemem_sessions.entities import (
    SCOPE,
    SESSION,
    SHARED_PREFIXES,
    ScopeHead,
    ScopeRecord,
    SessionHead,
    SessionRecord,
    State,
    StateChange,
    is_own,
    is_shared,
    scope_ids,
)


def set_state(heads: Heads, command: SetState) -> Decision:
    """Set one key. A shared key changes only its scope, so the session's revision stays the same."""
    head, session = find_session(heads, command.session_id)
    require_writable(command.session_id, session)
    change = _change(command)
    if is_shared(command.key):
        _require_scope(command.session_id, session, command.key, "key")
        return shared_appends(heads, command.session_id, session, change, "value", command.expect_revision)
    expect(f"session {command.session_id!r}", command.expect_revision, head.version)
    size = own_state_bytes(session, change, "value")
    record = SessionRecord("state", delta=change.delta, nulls=list(change.nulls) or None, state_bytes=size)
    return [Append(SESSION, command.session_id, record)]


def _change(command: SetState) -> StateChange:
    if not command.keep_null:
        return StateChange({command.key: command.value})
    if command.value is not None:
        raise InvalidRequest("keep_null: it needs the value null", field="keep_null")
    return StateChange({}, [command.key])


def own_state_bytes(session: SessionHead, change: StateChange, field: str) -> int:
    """Return the size of the session's own state after a change. Raises `TooLarge`, with `field` as the path in the
    request."""
    return _grown("state", session.state, session.state_bytes, change.part(is_own), field)


def shared_appends(
    heads: Heads,
    session_id: str,
    session: SessionHead,
    change: StateChange,
    field: str,
    expect_revision: int | None = None,
) -> list[Append[ScopeHead, ScopeRecord]]:
    """Return one record for each shared scope that a write changes."""
    if not any(map(is_shared, change.keys)):
        return []
    ids = scope_ids(session.user_id, session.app_name, session.project_id)
    appends: list[Append[ScopeHead, ScopeRecord]] = []
    for prefix in SHARED_PREFIXES:
        part = change.part(methodcaller("startswith", prefix))
        if not part.keys:
            continue
        key = part.keys[0]
        path = f"{field}.{key}" if part.delta else f"state_nulls.{change.nulls.index(key)}"
        _require_scope(session_id, session, key, path)
        id = ids[prefix]
        head = heads(SCOPE, id)
        expect(f"the state of {id}", expect_revision, head.version if head else 0)
        known = head.value if head and head.value else ScopeHead({}, 0)
        size = _grown(id, known.state, known.state_bytes, part, field)
        appends.append(Append(SCOPE, id, ScopeRecord(part.delta, size, session_id, list(part.nulls) or None)))
    return appends


def _require_scope(session_id: str, session: SessionHead, key: str, field: str) -> None:
    if key.startswith("project:") and session.project_id is None:
        raise InvalidRequest(f"{field}: session {session_id!r} belongs to no project", field=field)


def _grown(scope: str, state: State, size: int, change: StateChange, field: str) -> int:
    """Return the size of a scope after a change, without encoding its unchanged keys."""
    size -= entries_bytes({key: state[key] for key in change.keys if key in state})
    size += entries_bytes(change.entries)
    if size > STATE_BYTES:
        raise TooLarge(
            f"{field}: {scope} would have {size} bytes, {STATE_BYTES} at most",
            field=field,
            limit=STATE_BYTES,
            actual=size,
        )
    return size


def entries_bytes(entries: State) -> int:
    """Return the encoded size of these keys, each with its colon and comma."""
    return len(orjson.dumps(entries)) - 1 if entries else 0
