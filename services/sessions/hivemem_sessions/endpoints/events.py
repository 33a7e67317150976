"""The operations that append events to a session and list them."""

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Any

from hivemem_contracts.errors import HiveError, IdempotencyConflict
from hivemem_contracts.identifiers import microseconds_from_time
from hivemem_contracts.sessions import operations, replies, requests
from hivemem_runtime.ledger.cursor import encode_cursor
from hivemem_runtime.ledger.port import Decision, Heads, Ledger, Outcome, RequestId, Write
from hivemem_runtime.service import Call, Service
from hivemem_sessions.decisions import append_event
from hivemem_sessions.decisions.event_ids import is_made, made_event_id, request_of
from hivemem_sessions.decisions.large_values import check_event_values
from hivemem_sessions.endpoints.event_pages import events_cursor, events_through, read_events
from hivemem_sessions.endpoints.session_views import FoundSession, session_now
from hivemem_sessions.entities import SESSION


def bind(service: Service) -> None:
    service.command(operations.APPEND, plan_append, answer_append)
    service.handler(operations.APPEND_BATCH, partial(append_batch, service.ledger))
    service.handler(operations.EVENTS, partial(list_events, service.ledger))


def plan_append(call: Call, body: requests.AppendEvent, part: str = "") -> Write:
    """Return the write of one event. Without an id from the caller, the event id is derived from the message id, so
    that the event id and the idempotency key of the append are stored once."""
    own, made = body.event.event_id, made_event_id(call.request_name + part)
    event_id, sender = own or made, call.sender

    def decide(heads: Heads, now: int) -> Decision:
        check_event_values(sender.tenant, body)
        return append_event(heads, body, event_id, sender.agent)

    return call.step(
        SESSION,
        body.session_id,
        decide,
        request_id=RequestId(request_of(made), call.digest, as_long_as_key=own is None),
        once=own,
        answered_by=request_of(own) if own is not None and is_made(own) else None,
        part_of=call.request_id if part else None,
    )


def answer_append(call: Call, body: Any, outcome: Outcome) -> replies.Appended:
    assert outcome.stamp is not None
    return replies.Appended.model_construct(
        session_id=outcome.stamp.id,
        event_id=outcome.record.event["event_id"],
        sequence=outcome.record.sequence,
        revision=outcome.stamp.version,
        duplicate=outcome.duplicate,
    )


async def append_batch(ledger: Ledger, call: Call, body: requests.AppendEvents) -> replies.AppendedBatch:
    """Append several events. All are queued before the first is awaited, so they share commits and keep their order."""
    writes = [plan_append(call, append, f"#{place}") for place, append in enumerate(body.appends)]
    outcomes = await asyncio.gather(*map(ledger.commit, writes), return_exceptions=True)
    for outcome in outcomes:
        if isinstance(outcome, IdempotencyConflict):
            raise outcome
    if call.route is not None:
        _raise_first(outcomes)
    return replies.AppendedBatch(
        results=[_batch_result(call, append, outcome) for append, outcome in zip(body.appends, outcomes, strict=True)]
    )


def _raise_first(outcomes: Sequence[Outcome | BaseException]) -> None:
    """Raise the error of a failed part, because a durable command has no reply that could carry it.

    The whole command is then retried or becomes a dead letter; the other parts stay committed. A retryable error takes
    precedence over one that a retry cannot fix.
    """
    refused = [outcome for outcome in outcomes if isinstance(outcome, HiveError)]
    for error in sorted(refused, key=lambda error: not error.retryable)[:1]:
        raise error


def _batch_result(call: Call, append: requests.AppendEvent, outcome: Outcome | BaseException) -> replies.AppendOutcome:
    if isinstance(outcome, HiveError):
        return replies.AppendOutcome(session_id=append.session_id, **outcome.body())
    if isinstance(outcome, BaseException):
        raise outcome
    appended = answer_append(call, append, outcome)
    return replies.AppendOutcome(**appended.model_dump())


async def list_events(ledger: Ledger, call: Call, body: requests.ListEvents) -> replies.EventPage:
    tenant = call.sender.tenant
    found = await session_now(ledger, tenant, body.session_id)
    after, before = await _bounds(ledger, tenant, found, body)
    events, more = await read_events(
        ledger,
        tenant,
        found,
        after=after,
        before=before,
        limit=body.limit,
        reverse=body.reverse,
        tag=("type", body.type) if body.type is not None else ("author", body.author) if body.author else None,
    )
    if body.type is not None and body.author is not None:
        kept = [event for event in events if event.author == body.author]
    else:
        kept = events
    cursor = encode_cursor("events", body.reverse, events[-1].sequence) if more and events else None
    return replies.EventPage.model_construct(items=kept, cursor=cursor)


async def _bounds(
    ledger: Ledger, tenant: str, found: FoundSession, body: requests.ListEvents
) -> tuple[int, int | None]:
    """Return the exclusive sequence bounds of a page, from the request's sequences, times and cursor."""
    after, before = body.after or 0, body.before
    if body.since is not None:
        moment = microseconds_from_time(body.since)
        after = max(after, await events_through(ledger, tenant, found, moment - 1))
    if body.until is not None:
        moment = microseconds_from_time(body.until)
        end = await events_through(ledger, tenant, found, moment - 1) + 1
        before = end if before is None else min(before, end)
    if body.cursor is not None:
        reverse, sequence = events_cursor(body.cursor, body.reverse)
        if reverse:
            before = sequence if before is None else min(before, sequence)
        else:
            after = max(after, sequence)
    return after, before
