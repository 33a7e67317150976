"""State deltas: which scope each key belongs to, what may be kept, how large a scope may grow."""

from typing import Any

import orjson

from hivemem_contracts.errors import InvalidRequest, TooLarge
from hivemem_contracts.limits import STATE_BYTES, VALUE_BYTES
from hivemem_contracts.sessions.requests import SetState
from hivemem_runtime.ledger.port import Append, Decision, Heads
from hivemem_sessions.decisions.standing import expect, find_session, require_writable
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
    """One key. A shared one touches its scope alone, so the session's revision stays."""
    head, session = find_session(heads, command.session_id)
    require_writable(command.session_id, session)
    delta: State = {command.key: command.value}
    if is_shared(command.key):
        return shared_appends(heads, command.session_id, session, delta, command.expect_revision)
    expect(f"session {command.session_id!r}", command.expect_revision, head.version)
    size = own_state_bytes(session, delta)
    return [Append(SESSION, command.session_id, SessionRecord("state", delta=delta, state_bytes=size))]


def own_state_bytes(session: SessionHead, delta: State) -> int:
    """The size of the session's own state after a delta; refuses what is too large."""
    own = {key: value for key, value in delta.items() if not is_shared(key)}
    return _grown("state", session.state, session.state_bytes, own)


def shared_appends(
    heads: Heads, session_id: str, session: SessionHead, delta: State, expect_revision: int | None = None
) -> list[Append[ScopeHead, ScopeRecord]]:
    """One record for each shared scope that a delta touches."""
    ids = scope_ids(session.user_id, session.app_name, session.project_id)
    appends: list[Append[ScopeHead, ScopeRecord]] = []
    for prefix in SHARED_PREFIXES:
        part = {key: value for key, value in delta.items() if key.startswith(prefix)}
        if not part:
            continue
        if prefix not in ids:
            key = next(iter(part))
            raise InvalidRequest(f"{key}: session {session_id!r} belongs to no project", field=f"state_delta.{key}")
        id = ids[prefix]
        head = heads(SCOPE, id)
        expect(f"the state of {id}", expect_revision, head.version if head else 0)
        known = head.value if head and head.value else ScopeHead({}, 0)
        size = _grown(id, known.state, known.state_bytes, part)
        appends.append(Append(SCOPE, id, ScopeRecord(part, size, session_id)))
    return appends


def _grown(scope: str, state: State, size: int, delta: State) -> int:
    """The size of a scope after a delta, without encoding what stays."""
    for key, value in delta.items():
        if key in state:
            size -= _entry_bytes(key, state[key])
        if value is not None:
            size += checked_bytes(f"state_delta.{key}", value) + len(key)
    if size > STATE_BYTES:
        raise TooLarge(
            f"{scope}: {size} bytes of state, {STATE_BYTES} at most",
            field="state_delta",
            limit=STATE_BYTES,
            actual=size,
        )
    return size


def _entry_bytes(key: str, value: Any) -> int:
    return len(key) + len(orjson.dumps(value))


def checked_bytes(field: str, value: Any) -> int:
    """The encoded size of one value, or `TooLarge`."""
    size = len(orjson.dumps(value))
    if size > VALUE_BYTES:
        raise TooLarge(f"{field}: {size} bytes, {VALUE_BYTES} at most", field=field, limit=VALUE_BYTES, actual=size)
    return size
