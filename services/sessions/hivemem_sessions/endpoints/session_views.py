"""Sessions as operations return them: now, at a revision or at a moment, with the state of their shared scopes."""

from typing import Any

from hivemem_contracts.errors import NotFound
from hivemem_contracts.identifiers import time_from_microseconds
from hivemem_contracts.sessions.models import MachineState, Origin, Session
from hivemem_contracts.sessions.replies import SessionWritten
from hivemem_runtime.ledger.past import head_as_of, head_at
from hivemem_runtime.ledger.port import Head, Ledger, Outcome
from hivemem_sessions.decisions.preconditions import session_not_found
from hivemem_sessions.entities import SCOPE, SESSION, SessionHead, scope_ids
from hivemem_sessions.entities.announcements import machine_value

FoundSession = tuple[Head[SessionHead], SessionHead]
"""A head of a session, and its value, which exists."""


async def session_now(ledger: Ledger, tenant: str, session_id: str) -> FoundSession:
    return _present(await ledger.head(SESSION, tenant, session_id), session_id)


async def session_at_revision(ledger: Ledger, tenant: str, session_id: str, revision: int) -> FoundSession:
    newest, session = await session_now(ledger, tenant, session_id)
    head = await head_at(ledger, SESSION, tenant, session_id, revision, after=session.offset)
    if head is None or head.value is None:
        raise NotFound(
            f"session {session_id!r} has no revision {revision}, the newest is {newest.version}",
            session_id=session_id,
            revision=revision,
        )
    return head, head.value


async def session_at_moment(ledger: Ledger, tenant: str, session_id: str, at: int) -> FoundSession:
    _, session = await session_now(ledger, tenant, session_id)
    head = await head_as_of(ledger, SESSION, tenant, session_id, at, after=session.offset)
    if head is None or head.value is None:
        moment = time_from_microseconds(at).isoformat()
        raise NotFound(f"session {session_id!r} did not exist at {moment}", session_id=session_id)
    return head, head.value


def _present(head: Head[SessionHead] | None, session_id: str) -> FoundSession:
    if head is None or head.value is None:
        raise session_not_found(session_id)
    return head, head.value


async def whole_state(ledger: Ledger, tenant: str, session: SessionHead, *, as_of: int | None = None) -> dict[str, Any]:
    """Return the session's own state merged with its shared scopes, now or at a moment."""
    ids = list(scope_ids(session.user_id, session.app_name, session.project_id).values())
    state = dict(session.state)
    if as_of is None:
        for scope in (await ledger.heads(SCOPE, tenant, ids)).values():
            state.update(scope.value.state if scope.value else {})
        return state
    for id in ids:
        past = await head_as_of(ledger, SCOPE, tenant, id, as_of)
        state.update(past.value.state if past and past.value else {})
    return state


async def written_session(ledger: Ledger, tenant: str, outcome: Outcome) -> SessionWritten:
    """Return the session right after a write. A retry gets the session of the first write."""
    assert outcome.stamp is not None
    stamp = outcome.stamp
    if outcome.head is None:
        found = await session_at_revision(ledger, tenant, stamp.id, stamp.version)
    else:
        found = Head(stamp.id, stamp.version, stamp.at, outcome.head), outcome.head
    written = await view(ledger, tenant, found)
    return SessionWritten.model_construct(**vars(written), duplicate=outcome.duplicate)


async def view(ledger: Ledger, tenant: str, found: FoundSession, *, as_of: int | None = None) -> Session:
    """Return the wire format of a session."""
    head, session = found
    return session_model(head, session, await whole_state(ledger, tenant, session, as_of=as_of))


def session_model(head: Head[SessionHead], session: SessionHead, state: dict[str, Any]) -> Session:
    machine = MachineState.model_construct(**machine_value(session.machine)) if session.machine else None
    return Session.model_construct(
        session_id=head.id,
        app_name=session.app_name,
        user_id=session.user_id,
        project_id=session.project_id,
        status=session.status,
        state=state,
        metadata=session.metadata,
        revision=head.version,
        event_count=session.event_count,
        created_at=time_from_microseconds(session.created_at),
        updated_at=time_from_microseconds(session.updated_at),
        terminated_at=_optional_time(session.terminated_at),
        archived_at=_optional_time(session.archived_at),
        machine=machine,
        forked_from=Origin.model_construct(**session.origin) if session.origin else None,
    )


def _optional_time(at: int | None) -> Any:
    return None if at is None else time_from_microseconds(at)
