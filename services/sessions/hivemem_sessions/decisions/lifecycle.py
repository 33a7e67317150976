"""The rules for creating, updating, forking and deleting a session, and for its status changes."""

from typing import Any

import orjson

from hivemem_contracts.errors import AlreadyExists, IllegalTransition
from hivemem_contracts.limits import VALUE_BYTES
from hivemem_contracts.sessions.requests import CreateSession, UpdateSession
from hivemem_contracts.sizes import check_size
from hivemem_runtime.ledger.port import Append, Decision, Head, Heads
from hivemem_runtime.merge_patch import merge_patch
from hivemem_sessions.decisions.apps import declared_indexes
from hivemem_sessions.decisions.large_values import owners_of_values
from hivemem_sessions.decisions.machines import starting_machine
from hivemem_sessions.decisions.preconditions import TRANSITIONS, expect, find_session, session_not_found
from hivemem_sessions.decisions.shares import share_segments
from hivemem_sessions.decisions.state import entries_bytes, own_state_bytes, shared_appends
from hivemem_sessions.entities import (
    DELETION,
    SESSION,
    TEMPORARY_PREFIX,
    Deletion,
    SessionHead,
    SessionRecord,
    State,
    StateChange,
    is_own,
    without_temporary,
)


def create_session(heads: Heads, command: CreateSession, session_id: str) -> Decision:
    """Create a session. Each key of the initial state goes to the scope that its prefix names."""
    offset = _require_absent(heads, session_id)
    initial = StateChange(command.initial_state or {}, command.state_nulls or ())
    blank = SessionHead(command.app_name, command.user_id, command.project_id, "created", {}, 0, {}, 0, 0, 0)
    opening: dict[str, Any] = {
        "app_name": command.app_name,
        "user_id": command.user_id,
        "project_id": command.project_id,
        "status": "created",
        "state": initial.part(is_own).entries,
        "state_bytes": own_state_bytes(blank, initial, "initial_state"),
        "metadata": command.metadata,
        "event_count": 0,
        "offset": offset,
        "indexes": declared_indexes(heads, command.app_name),
    }
    if command.machine is not None:
        opening["machine"] = starting_machine(heads, command.machine)
    own: list[Append[Any, Any]] = [Append(SESSION, session_id, SessionRecord("created", opening=opening))]
    return own + shared_appends(heads, session_id, blank, initial, "initial_state")


def update_session(heads: Heads, command: UpdateSession) -> Decision:
    """Patch the metadata, or move the session to another project. Either is a note about the session, so every status
    allows it."""
    head, session = find_session(heads, command.session_id)
    expect(f"session {command.session_id!r}", command.expect_revision, head.version)
    if command.metadata is not None:
        check_size("metadata", len(orjson.dumps(merge_patch(session.metadata, command.metadata))), VALUE_BYTES)
    record = SessionRecord("updated", metadata=command.metadata, project_id=command.project_id)
    return [Append(SESSION, command.session_id, record)]


def change_status(heads: Heads, session_id: str, status: str) -> Decision:
    _, session = find_session(heads, session_id)
    allowed = TRANSITIONS[session.status]
    if status not in allowed:
        raise IllegalTransition(
            f"session {session_id!r} is {session.status}: it cannot become {status}, "
            f"{'only ' + ' or '.join(allowed) if allowed else 'nothing follows'}",
            status=session.status,
            requested=status,
            allowed=list(allowed),
        )
    delta = _cleared(session) if status == "terminated" else None
    record = SessionRecord(
        "status",
        delta=delta,
        state_bytes=own_state_bytes(session, StateChange(delta), "state") if delta else None,
        status=status,
        previous_status=session.status,
    )
    return [Append(SESSION, session_id, record)]


def _cleared(session: SessionHead) -> State | None:
    """Return a delta that deletes the temporary state of a session that ends."""
    return {key: None for key in session.state if key.startswith(TEMPORARY_PREFIX)} or None


def begin_deletion(heads: Heads, session_id: str) -> Decision:
    """Record that a deletion began, under the request's idempotency key. A retry then still deletes the same
    session."""
    head, _ = find_session(heads, session_id)
    return [Append(DELETION, session_id, Deletion(head.version))]


def fork_session(heads: Heads, origin_id: str, origin: Head[SessionHead], session_id: str) -> Decision:
    """Create a session that shares the origin's events up to the given head and starts with the state of that head."""
    offset = _require_absent(heads, session_id)
    now_there = find_session(heads, origin_id)[1]
    session = origin.value
    # The given head may be that of an erased session, whose id a new session has by now.
    if session is None or session.offset != now_there.offset:
        raise session_not_found(origin_id)
    state = without_temporary(session.state)
    reached = session.segments[-1][1] if session.segments else 0
    own = [[origin_id, session.event_count, session.offset]] if session.event_count > reached else []
    segments = [*session.segments, *own]
    opening: dict[str, Any] = {
        "app_name": session.app_name,
        "user_id": session.user_id,
        "project_id": session.project_id,
        "status": "active" if session.event_count else "created",
        "state": state,
        "state_bytes": entries_bytes(state),
        "metadata": session.metadata,
        "event_count": session.event_count,
        "machine": session.machine,
        "origin": {"session_id": origin_id, "revision": origin.version, "sequence": session.event_count},
        "segments": segments,
        "offset": offset,
        "indexes": declared_indexes(heads, session.app_name),
    }
    fork: list[Append[Any, Any]] = [Append(SESSION, session_id, SessionRecord("forked", opening=opening))]
    return fork + share_segments(session_id, segments, owners_of_values(state))


def _require_absent(heads: Heads, session_id: str) -> int:
    """Return the offset of a new session: the last version of its id, which is above all positions of earlier
    sessions with that id."""
    head = heads(SESSION, session_id)
    if head is not None and head.value is not None:
        raise AlreadyExists(f"session {session_id!r} already exists", session_id=session_id)
    return head.version if head is not None else 0
