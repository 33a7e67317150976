"""Pages of events. A fork's events come from the records of several sessions."""

from collections.abc import AsyncIterator
from datetime import datetime
from typing import Final, NamedTuple

import orjson

from hivemem_contracts.errors import InvalidRequest
from hivemem_contracts.identifiers import time_from_microseconds
from hivemem_contracts.limits import REPLY_BYTES
from hivemem_contracts.sessions.models import Event
from hivemem_runtime.ledger.cursor import decode_cursor
from hivemem_runtime.ledger.port import Ledger, Record
from hivemem_sessions.endpoints.session_views import FoundSession
from hivemem_sessions.entities import SESSION, SNAPSHOT_EVERY, SessionHead, SessionRecord

RECORDS_AT_ONCE: Final = 100


def events_cursor(cursor: str, reverse: bool) -> tuple[bool, int]:
    """Return the direction and the last sequence of the previous page. The direction cannot change between pages."""
    name, backwards, sequence = decode_cursor(cursor, (str, bool, int))
    if name != "events" or backwards is not reverse:
        raise InvalidRequest("cursor: it belongs to another list", field="cursor")
    return bool(backwards), int(sequence)


def event_model(record: Record[SessionRecord]) -> Event:
    """Return the event of a record, without validation: it was validated before it was stored."""
    event = record.value.event or {}
    occurred_at = event.get("occurred_at")
    return Event.model_construct(
        event_id=event["event_id"],
        sequence=record.value.sequence,
        type=event["type"],
        author=event["author"],
        content=event["content"],
        state_delta=record.value.delta,
        state_nulls=record.value.nulls,
        metadata=event["metadata"],
        parent_id=event["parent_id"],
        occurred_at=None if occurred_at is None else datetime.fromisoformat(occurred_at),
        at=time_from_microseconds(record.stamp.at),
    )


async def read_events(
    ledger: Ledger,
    tenant: str,
    found: FoundSession,
    *,
    after: int = 0,
    before: int | None = None,
    limit: int,
    reverse: bool = False,
    tag: tuple[str, str] | None = None,
) -> tuple[list[Event], bool]:
    """Return the events between two exclusive sequences, and whether more may follow. A page ends early at the maximum
    size of a reply."""
    head, session = found
    end = session.event_count + 1
    stop = end if before is None else min(before, end)
    events: list[Event] = []
    size = 0
    for part in ranges_between(head.id, session, after, stop, reverse):
        async for record in _records(ledger, tenant, part, limit + 1 - len(events), reverse, tag):
            size += len(orjson.dumps(record.value))
            if len(events) == limit or (events and size > REPLY_BYTES):
                return events, True
            events.append(event_model(record))
    return events, False


class RecordRange(NamedTuple):
    """A range of records of one session, between two exclusive positions."""

    owner: str
    first: int
    last: int


async def _records(
    ledger: Ledger, tenant: str, part: RecordRange, limit: int, reverse: bool, tag: tuple[str, str] | None
) -> AsyncIterator[Record[SessionRecord]]:
    """Yield records of a range, at least `limit` if it has that many, in small reads because a page may reach its
    maximum size early."""
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
    """Return the sessions that contribute events, oldest first, each with the last sequence it contributes and its
    offset."""
    shared = [(str(owner), int(through), int(offset)) for owner, through, offset in session.segments]
    return [*shared, (session_id, session.event_count, session.offset)]


def ranges_between(session_id: str, session: SessionHead, after: int, before: int, reverse: bool) -> list[RecordRange]:
    """Return the record ranges that hold the sequences between two exclusive bounds, in reading order."""
    parts: list[RecordRange] = []
    start = 0
    for owner, through, offset in _owners(session_id, session):
        first, last = max(start, after), min(through + 1, before)
        if last - first > 1:
            parts.append(RecordRange(owner, offset + first, offset + last))
        start = max(start, through)
    return parts[::-1] if reverse else parts


async def events_through(ledger: Ledger, tenant: str, found: FoundSession, at: int) -> int:
    """Return the number of events at a moment, including events shared with the origin."""
    head, session = found
    counted = 0
    for owner, through, offset in _owners(head.id, session):
        version = await ledger.version_at(SESSION, tenant, owner, at)
        reached = await _position_at(ledger, tenant, owner, version) - offset
        counted = max(counted, min(reached, through))
    return counted


async def _position_at(ledger: Ledger, tenant: str, owner: str, version: int) -> int:
    """Return the last position up to a version. It reads records because an erased session has no head, only shared
    events."""
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
