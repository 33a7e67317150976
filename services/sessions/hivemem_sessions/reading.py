"""Reading what a session is: its head with the shared scopes, its events across forks, as it is or as it was."""

from collections.abc import Iterator
from typing import Any

import orjson

from hivemem_contracts.errors import InvalidRequest, NotFound
from hivemem_contracts.identifiers import time_from_microseconds
from hivemem_contracts.limits import REPLY_BYTES
from hivemem_contracts.sessions.models import Event, MachineState, Origin, Session
from hivemem_runtime.ledger.cursor import decode_cursor
from hivemem_runtime.ledger.past import head_as_of, head_at
from hivemem_runtime.ledger.port import Head, Ledger, Record
from hivemem_sessions.announcements import machine_value
from hivemem_sessions.decisions.standing import session_not_found
from hivemem_sessions.entities import SCOPE, SESSION, SessionHead, SessionRecord, scope_ids

Standing = tuple[Head[SessionHead], SessionHead]


async def session_now(ledger: Ledger, tenant: str, session_id: str) -> Standing:
    return _present(await ledger.head(SESSION, tenant, session_id), session_id)


async def session_at_revision(ledger: Ledger, tenant: str, session_id: str, revision: int) -> Standing:
    newest, _ = await session_now(ledger, tenant, session_id)
    head = await head_at(ledger, SESSION, tenant, session_id, revision)
    if head is None or head.value is None:
        raise NotFound(
            f"session {session_id!r} has no revision {revision}, the newest is {newest.version}",
            session_id=session_id,
            revision=revision,
        )
    return head, head.value


async def session_at_moment(ledger: Ledger, tenant: str, session_id: str, at: int) -> Standing:
    await session_now(ledger, tenant, session_id)
    head = await head_as_of(ledger, SESSION, tenant, session_id, at)
    if head is None or head.value is None:
        moment = time_from_microseconds(at).isoformat()
        raise NotFound(f"session {session_id!r} did not exist at {moment}", session_id=session_id)
    return head, head.value


def machine_not_found(name: str, version: int | None) -> NotFound:
    which = f" version {version}" if version else ""
    return NotFound(f"machine {name!r}{which} does not exist", machine=name)


def events_cursor(cursor: str, reverse: bool) -> tuple[bool, int]:
    """The direction and the last sequence of the page before; a page cannot turn round on the way."""
    name, backwards, sequence = decode_cursor(cursor, (str, bool, int))
    if name != "events" or backwards is not reverse:
        raise InvalidRequest("cursor: it belongs to another list", field="cursor")
    return bool(backwards), int(sequence)


def _present(head: Head[SessionHead] | None, session_id: str) -> Standing:
    if head is None or head.value is None:
        raise session_not_found(session_id)
    return head, head.value


async def whole_state(ledger: Ledger, tenant: str, session: SessionHead, *, as_of: int | None = None) -> dict[str, Any]:
    """The session's own keys and those of the scopes that it shares, now or as they were."""
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


async def view(ledger: Ledger, tenant: str, standing: Standing, *, as_of: int | None = None) -> Session:
    """A session as it travels."""
    head, session = standing
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


def event_model(record: Record[SessionRecord]) -> Event:
    """Built without checking: what is kept was checked when it came."""
    event = record.value.event or {}
    return Event.model_construct(
        event_id=event["event_id"],
        sequence=record.value.sequence,
        type=event["type"],
        author=event["author"],
        content=event["content"],
        state_delta=record.value.delta,
        metadata=event["metadata"],
        parent_id=event["parent_id"],
        at=time_from_microseconds(record.stamp.at),
    )


async def read_events(
    ledger: Ledger,
    tenant: str,
    standing: Standing,
    *,
    after: int = 0,
    before: int | None = None,
    limit: int,
    reverse: bool = False,
    tag: tuple[str, str] | None = None,
) -> tuple[list[Event], bool]:
    """Events with a sequence between the bounds, and whether more may follow; ends early where they grow large."""
    head, session = standing
    end = session.event_count + 1
    stop = end if before is None else min(before, end)
    events: list[Event] = []
    size = 0
    for owner, first, last in _parts(head.id, session, after, stop, reverse):
        records = await ledger.history(
            SESSION,
            tenant,
            owner,
            after=first,
            before=last,
            limit=limit + 1 - len(events),
            reverse=reverse,
            by_position=True,
            tag=tag,
        )
        for record in records:
            size += len(orjson.dumps(record.value))
            if len(events) == limit or (events and size > REPLY_BYTES):
                return events, True
            events.append(event_model(record))
    return events, False


def _parts(
    session_id: str, session: SessionHead, after: int, before: int, reverse: bool
) -> Iterator[tuple[str, int, int]]:
    """Whose records hold which sequences, as exclusive bounds, in reading order."""
    parts: list[tuple[str, int, int]] = []
    start = 0
    for owner, through in [*session.segments, [session_id, session.event_count]]:
        first, last = max(start, after), min(through + 1, before)
        if last - first > 1:
            parts.append((owner, first, last))
        start = max(start, through)
    return iter(reversed(parts) if reverse else parts)


async def events_through(ledger: Ledger, tenant: str, standing: Standing, at: int) -> int:
    """How many events the session had at a moment, those it shares with its origin included."""
    head, session = standing
    counted = 0
    for owner, through in [*session.segments, [head.id, session.event_count]]:
        version = await ledger.version_at(SESSION, tenant, owner, at)
        past = await head_at(ledger, SESSION, tenant, owner, version) if version else None
        if past is None or past.value is None:
            break
        counted = max(counted, min(past.value.event_count, through))
    return counted
