"""Reading what a session is: its head with the shared scopes, its events across forks, as it is or as it was."""

from collections.abc import AsyncIterator
from typing import Any, Final, NamedTuple

import orjson

from hivemem_contracts.errors import InvalidRequest, NotFound
from hivemem_contracts.identifiers import time_from_microseconds
from hivemem_contracts.limits import REPLY_BYTES
from hivemem_contracts.sessions.models import Event, MachineState, Origin, Session
from hivemem_runtime.ledger.cursor import decode_cursor
from hivemem_runtime.ledger.past import head_as_of, head_at
from hivemem_runtime.ledger.port import Head, Ledger, Record
from hivemem_sessions.decisions.standing import session_not_found
from hivemem_sessions.entities import SCOPE, SESSION, SNAPSHOT_EVERY, SessionHead, SessionRecord, scope_ids
from hivemem_sessions.entities.announcements import machine_value

RECORDS_AT_ONCE: Final = 100

Standing = tuple[Head[SessionHead], SessionHead]


async def session_now(ledger: Ledger, tenant: str, session_id: str) -> Standing:
    return _present(await ledger.head(SESSION, tenant, session_id), session_id)


async def session_at_revision(ledger: Ledger, tenant: str, session_id: str, revision: int) -> Standing:
    newest, session = await session_now(ledger, tenant, session_id)
    head = await head_at(ledger, SESSION, tenant, session_id, revision, after=session.offset)
    if head is None or head.value is None:
        raise NotFound(
            f"session {session_id!r} has no revision {revision}, the newest is {newest.version}",
            session_id=session_id,
            revision=revision,
        )
    return head, head.value


async def session_at_moment(ledger: Ledger, tenant: str, session_id: str, at: int) -> Standing:
    _, session = await session_now(ledger, tenant, session_id)
    head = await head_as_of(ledger, SESSION, tenant, session_id, at, after=session.offset)
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
    for part in parts_between(head.id, session, after, stop, reverse):
        async for record in _records(ledger, tenant, part, limit + 1 - len(events), reverse, tag):
            size += len(orjson.dumps(record.value))
            if len(events) == limit or (events and size > REPLY_BYTES):
                return events, True
            events.append(event_model(record))
    return events, False


class Part(NamedTuple):
    """A stretch of the records of one session; `first` and `last` are exclusive positions."""

    owner: str
    first: int
    last: int


async def _records(
    ledger: Ledger, tenant: str, part: Part, limit: int, reverse: bool, tag: tuple[str, str] | None
) -> AsyncIterator[Record[SessionRecord]]:
    """At least `limit` where there are so many, a few at a time: a page may be full, by its bytes, long before."""
    first, last = part.first, part.last
    while True:
        records = await ledger.history(
            SESSION,
            tenant,
            part.owner,
            after=first,
            before=last,
            limit=min(limit, RECORDS_AT_ONCE),
            reverse=reverse,
            by_position=True,
            tag=tag,
        )
        for record in records:
            yield record
        limit -= len(records)
        reached = records[-1].value.position if len(records) == RECORDS_AT_ONCE else None
        if reached is None:
            return
        first, last = (first, reached) if reverse else (reached, last)


def _owners(session_id: str, session: SessionHead) -> list[tuple[str, int, int]]:
    """Whose records hold the session's events, oldest first: the last sequence each contributes, and its offset."""
    shared = [(str(owner), int(through), int(offset)) for owner, through, offset in session.segments]
    return [*shared, (session_id, session.event_count, session.offset)]


def parts_between(session_id: str, session: SessionHead, after: int, before: int, reverse: bool) -> list[Part]:
    """Whose records hold the sequences between two exclusive bounds, in reading order."""
    parts: list[Part] = []
    start = 0
    for owner, through, offset in _owners(session_id, session):
        first, last = max(start, after), min(through + 1, before)
        if last - first > 1:
            parts.append(Part(owner, offset + first, offset + last))
        start = max(start, through)
    return parts[::-1] if reverse else parts


async def events_through(ledger: Ledger, tenant: str, standing: Standing, at: int) -> int:
    """How many events the session had at a moment, those it shares with its origin included."""
    head, session = standing
    counted = 0
    for owner, through, offset in _owners(head.id, session):
        version = await ledger.version_at(SESSION, tenant, owner, at)
        reached = await _position_at(ledger, tenant, owner, version) - offset
        counted = max(counted, min(reached, through))
    return counted


async def _position_at(ledger: Ledger, tenant: str, owner: str, version: int) -> int:
    """The last position up to a version. Asks no head: of a deleted session only events that are shared are left."""
    records = await ledger.history(
        SESSION,
        tenant,
        owner,
        after=max(version - SNAPSHOT_EVERY, 0),
        before=version + 1,
        limit=SNAPSHOT_EVERY,
        reverse=True,
    )
    for record in records:
        if record.value.position is not None:
            return record.value.position
        if record.snapshot is not None:
            return int(record.snapshot.offset + record.snapshot.event_count)
        if record.value.opening is not None:
            return int(record.value.opening["offset"] + record.value.opening["event_count"])
    return 0
