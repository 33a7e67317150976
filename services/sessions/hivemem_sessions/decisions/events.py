"""The rule for appending an event. The event, its state delta, the status change and the machine's step are one
atomic write."""

from typing import Any

from hivemem_contracts.identifiers import format_time
from hivemem_contracts.sessions.requests import AppendEvent
from hivemem_runtime.ledger.port import Append, Decision, Heads
from hivemem_sessions.decisions.machines import move_machine
from hivemem_sessions.decisions.preconditions import expect, find_session, require_writable
from hivemem_sessions.decisions.state import own_state_bytes, shared_appends
from hivemem_sessions.entities import SESSION, SessionRecord, StateChange


def append_event(heads: Heads, command: AppendEvent, event_id: str, agent: str) -> Decision:
    """Append an event with the next sequence. The first event makes the session active."""
    head, session = find_session(heads, command.session_id)
    expect(f"session {command.session_id!r}", command.expect_revision, head.version)
    require_writable(command.session_id, session)
    event = _event(command, event_id, agent)
    delta, nulls = command.state_delta, command.state_nulls or None
    change = StateChange(delta or {}, nulls or ())
    record = SessionRecord(
        "event",
        sequence=session.event_count + 1,
        event=event,
        delta=delta,
        nulls=nulls,
        state_bytes=own_state_bytes(session, change, "state_delta") if change.keys else None,
        status="active" if session.status == "created" else None,
        previous_status="created" if session.status == "created" else None,
        machine_state=move_machine(command.session_id, session, event),
        offset=session.offset,
    )
    own: list[Append[Any, Any]] = [Append(SESSION, command.session_id, record)]
    return own + shared_appends(heads, command.session_id, session, change, "state_delta")


def _event(command: AppendEvent, event_id: str, agent: str) -> dict[str, Any]:
    event = command.event
    occurred = {} if event.occurred_at is None else {"occurred_at": format_time(event.occurred_at)}
    return {
        "event_id": event_id,
        "type": event.type,
        "author": event.author if event.author is not None else agent,
        "content": event.content,
        "metadata": event.metadata,
        "parent_id": event.parent_id,
        **occurred,
    }
