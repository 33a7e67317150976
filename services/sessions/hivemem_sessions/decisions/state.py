"""The rules of state deltas: the scope of each key, and the size limit of a scope."""

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
    is_shared,
    scope_ids,
)


def set_state(heads: Heads, command: SetState) -> Decision:
    """Set one key. A shared key changes only its scope, so the session's revision stays the same."""
    head, session = find_session(heads, command.session_id)
    require_writable(command.session_id, session)
    delta: State = {command.key: command.value}
    if is_shared(command.key):
        _require_scope(command.session_id, session, command.key, "key")
        return shared_appends(heads, command.session_id, session, delta, "value", command.expect_revision)
    expect(f"session {command.session_id!r}", command.expect_revision, head.version)
    size = own_state_bytes(session, delta, "value")
    return [Append(SESSION, command.session_id, SessionRecord("state", delta=delta, state_bytes=size))]


def own_state_bytes(session: SessionHead, delta: State, field: str) -> int:
    """Return the size of the session's own state after a delta. Raises `TooLarge`, with `field` as the path in the
    request."""
    own = {key: value for key, value in delta.items() if not is_shared(key)}
    return _grown("state", session.state, session.state_bytes, own, field)


def shared_appends(
    heads: Heads,
    session_id: str,
    session: SessionHead,
    delta: State,
    field: str,
    expect_revision: int | None = None,
) -> list[Append[ScopeHead, ScopeRecord]]:
    """Return one record for each shared scope that a delta changes."""
    if not any(map(is_shared, delta)):
        return []
    ids = scope_ids(session.user_id, session.app_name, session.project_id)
    appends: list[Append[ScopeHead, ScopeRecord]] = []
    for prefix in SHARED_PREFIXES:
        part = {key: value for key, value in delta.items() if key.startswith(prefix)}
        if not part:
            continue
        key = next(iter(part))
        _require_scope(session_id, session, key, f"{field}.{key}")
        id = ids[prefix]
        head = heads(SCOPE, id)
        expect(f"the state of {id}", expect_revision, head.version if head else 0)
        known = head.value if head and head.value else ScopeHead({}, 0)
        size = _grown(id, known.state, known.state_bytes, part, field)
        appends.append(Append(SCOPE, id, ScopeRecord(part, size, session_id)))
    return appends


def _require_scope(session_id: str, session: SessionHead, key: str, field: str) -> None:
    if key.startswith("project:") and session.project_id is None:
        raise InvalidRequest(f"{field}: session {session_id!r} belongs to no project", field=field)


def _grown(scope: str, state: State, size: int, delta: State, field: str) -> int:
    """Return the size of a scope after a delta, without encoding its unchanged keys."""
    size -= _entries_bytes({key: state[key] for key in delta if key in state})
    size += _entries_bytes({key: value for key, value in delta.items() if value is not None})
    if size > STATE_BYTES:
        raise TooLarge(
            f"{field}: {scope} would have {size} bytes, {STATE_BYTES} at most",
            field=field,
            limit=STATE_BYTES,
            actual=size,
        )
    return size


def _entries_bytes(entries: State) -> int:
    """Return the encoded size of these keys, each with its colon and comma."""
    return len(orjson.dumps(entries)) - 1 if entries else 0
