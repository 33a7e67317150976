"""The operations that create, read, update and delete one session, and that change its status."""

import asyncio
from functools import partial
from typing import Any

from hivemem_contracts.identifiers import microseconds_from_time, new_id, time_from_microseconds
from hivemem_contracts.sessions import operations, replies, requests
from hivemem_runtime.ledger.cursor import encode_cursor
from hivemem_runtime.ledger.port import Decision, Heads, Ledger, Outcome, Write
from hivemem_runtime.service import Call, Service
from hivemem_sessions.decisions import begin_deletion, change_status, create_session, update_session
from hivemem_sessions.decisions.large_values import check_state_values
from hivemem_sessions.endpoints.deletion import SessionEraser
from hivemem_sessions.endpoints.event_pages import read_events
from hivemem_sessions.endpoints.session_views import (
    session_at_moment,
    session_at_revision,
    session_now,
    view,
    written_session,
)
from hivemem_sessions.entities import APP, DELETION, SESSION, scope_ids
from hivemem_sessions.entities.announcements import require_announceable


def bind(service: Service, eraser: SessionEraser) -> None:
    ledger = service.ledger

    async def answer(call: Call, body: Any, outcome: Outcome) -> replies.SessionWritten:
        return await written_session(ledger, call.sender.tenant, outcome)

    service.command(operations.CREATE, plan_create, answer)
    service.command(operations.UPDATE, plan_update, answer)
    service.command(operations.SET_STATUS, plan_set_status, answer)
    service.command(operations.TERMINATE, plan_terminate, answer)
    service.command(operations.ARCHIVE, plan_archive, answer)
    service.handler(operations.GET, partial(get, ledger))
    service.handler(operations.DELETE, partial(delete, ledger, eraser))


def plan_create(call: Call, body: requests.CreateSession) -> Write:
    session_id = body.session_id or new_id()
    scopes = scope_ids(body.user_id, body.app_name, body.project_id).values()
    require_announceable(call.sender.tenant, session_id, scopes)
    reads = [(APP, body.app_name)]

    def decide(heads: Heads, now: int) -> Decision:
        check_state_values(call.sender.tenant, session_id, body.initial_state or {}, "initial_state")
        return create_session(heads, body, session_id)

    return call.write(SESSION, session_id, decide, reads)


def plan_update(call: Call, body: requests.UpdateSession) -> Write:
    scopes = [] if body.project_id is None else [f"project:{body.project_id}"]
    require_announceable(call.sender.tenant, body.session_id, scopes)
    return call.write(SESSION, body.session_id, lambda heads, now: update_session(heads, body))


def plan_set_status(call: Call, body: requests.SetStatus) -> Write:
    return _plan_status(call, body.session_id, body.status)


def plan_terminate(call: Call, body: requests.TerminateSession) -> Write:
    return _plan_status(call, body.session_id, "terminated")


def plan_archive(call: Call, body: requests.ArchiveSession) -> Write:
    return _plan_status(call, body.session_id, "archived")


def _plan_status(call: Call, session_id: str, status: str) -> Write:
    return call.write(SESSION, session_id, lambda heads, now: change_status(heads, session_id, status))


async def get(ledger: Ledger, call: Call, body: requests.GetSession) -> replies.SessionView:
    tenant = call.sender.tenant
    as_of: int | None = None
    if body.revision is not None:
        found = await session_at_revision(ledger, tenant, body.session_id, body.revision)
        as_of = found[0].at
    elif body.at is not None:
        as_of = microseconds_from_time(body.at)
        found = await session_at_moment(ledger, tenant, body.session_id, as_of)
    else:
        found = await session_now(ledger, tenant, body.session_id)
    viewing = view(ledger, tenant, found, as_of=as_of)
    if not body.events:
        return replies.SessionView.model_construct(session=await viewing, events=[])
    newest = read_events(ledger, tenant, found, limit=body.events, reverse=True)
    session, (events, more) = await asyncio.gather(viewing, newest)
    return replies.SessionView.model_construct(
        session=session,
        events=events[::-1],
        cut=more and len(events) < body.events,
        cursor=encode_cursor("events", True, events[-1].sequence) if more else None,
    )


async def delete(
    ledger: Ledger, eraser: SessionEraser, call: Call, body: requests.DeleteSession
) -> replies.SessionDeleted:
    session_id = body.session_id
    begun = await ledger.commit(call.write(DELETION, session_id, lambda heads, now: begin_deletion(heads, session_id)))
    stamp = await eraser.delete(call.sender, session_id, begun, cause=call.message_id)
    return replies.SessionDeleted(
        session_id=session_id,
        revision=stamp.version,
        deleted_at=time_from_microseconds(stamp.at),
        duplicate=begun.duplicate,
    )
