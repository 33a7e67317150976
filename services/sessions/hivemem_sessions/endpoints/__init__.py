"""One short function an operation: commit a decision, or ask an index."""

import asyncio
from collections.abc import Sequence
from typing import Any

from hivemem_contracts.errors import HiveError, IdempotencyConflict, NotFound
from hivemem_contracts.identifiers import microseconds_from_time, new_id, time_from_microseconds
from hivemem_contracts.sessions import operations, replies, requests
from hivemem_contracts.sessions.models import Machine, Session
from hivemem_runtime.ledger.cursor import encode_cursor
from hivemem_runtime.ledger.port import Decision, Head, Heads, Outcome, RequestId, Write
from hivemem_runtime.service import Call, Service
from hivemem_sessions.decisions import (
    append_event,
    begin_deletion,
    change_status,
    create_session,
    fork_session,
    put_machine,
    set_state,
)
from hivemem_sessions.decisions.event_ids import is_made, made_event_id, request_of
from hivemem_sessions.endpoints import reading
from hivemem_sessions.endpoints.deletion import Eraser
from hivemem_sessions.endpoints.listing import list_sessions
from hivemem_sessions.entities import DELETION, MACHINE, SCOPE, SESSION, SessionHead, is_shared, scope_ids
from hivemem_sessions.entities.announcements import require_announceable


def _raise_first(outcomes: Sequence[Outcome | BaseException]) -> None:
    """A durable command has nobody to tell of a part that failed: it is tried again, or a dead letter, as a whole.

    The parts that are done stay done, so only what passes goes before what can never succeed.
    """
    refused = [outcome for outcome in outcomes if isinstance(outcome, HiveError)]
    for error in sorted(refused, key=lambda error: not error.retryable)[:1]:
        raise error


class Endpoints:
    """The operations of the sessions service, bound to a service's ledger."""

    def __init__(self, service: Service, eraser: Eraser) -> None:
        self._ledger = service.ledger
        self._eraser = eraser
        service.command(operations.CREATE, self.plan_create, self.answer_session)
        service.command(operations.APPEND, self.plan_append, self.answer_append)
        service.command(operations.STATE_SET, self.plan_state_set, self.answer_state_set)
        service.command(operations.SET_STATUS, self.plan_set_status, self.answer_session)
        service.command(operations.TERMINATE, self.plan_terminate, self.answer_session)
        service.command(operations.ARCHIVE, self.plan_archive, self.answer_session)
        service.command(operations.MACHINE_PUT, self.plan_machine_put, self.answer_machine)
        service.handler(operations.GET, self.get)
        service.handler(operations.EVENTS, self.events)
        service.handler(operations.APPEND_BATCH, self.append_batch)
        service.handler(operations.STATE_GET, self.state_get)
        service.handler(operations.DELETE, self.delete)
        service.handler(operations.FORK, self.fork)
        service.handler(operations.LIST, self.list)
        service.handler(operations.MACHINE_GET, self.machine_get)

    def plan_create(self, call: Call, body: requests.CreateSession) -> Write:
        session_id = body.session_id or new_id()
        scopes = scope_ids(body.user_id, body.app_name, body.project_id).values()
        require_announceable(call.sender.tenant, session_id, scopes)
        return call.write(SESSION, session_id, lambda heads, now: create_session(heads, body, session_id))

    async def answer_session(self, call: Call, body: Any, outcome: Outcome) -> Session:
        """The session right after the write, also when the write is a repeated one."""
        assert outcome.stamp is not None
        tenant, stamp = call.sender.tenant, outcome.stamp
        if outcome.head is None:
            standing = await reading.session_at_revision(self._ledger, tenant, stamp.id, stamp.version)
        else:
            standing = (Head(stamp.id, stamp.version, stamp.at, outcome.head), outcome.head)
        return await reading.view(self._ledger, tenant, standing)

    def plan_append(self, call: Call, body: requests.AppendEvent, part: str = "") -> Write:
        """Without an event id of the caller's own, the message's id gives it: then one identity is enough for both."""
        own, made = body.event.event_id, made_event_id(call.request_name + part)
        event_id, sender = own or made, call.sender
        return call.step(
            SESSION,
            body.session_id,
            lambda heads, now: append_event(heads, body, event_id, sender.agent),
            request_id=RequestId(request_of(made), call.digest, as_long_as_key=own is None),
            once=own,
            answered_by=request_of(own) if own is not None and is_made(own) else None,
            part_of=call.request_id if part else None,
        )

    def answer_append(self, call: Call, body: Any, outcome: Outcome) -> replies.Appended:
        assert outcome.stamp is not None
        return replies.Appended.model_construct(
            session_id=outcome.stamp.id,
            event_id=outcome.record.event["event_id"],
            sequence=outcome.record.sequence,
            revision=outcome.stamp.version,
            duplicate=outcome.duplicate,
        )

    async def append_batch(self, call: Call, body: requests.AppendEvents) -> replies.AppendedBatch:
        """All queued before the first is awaited, so they share commits and keep their order."""
        writes = [self.plan_append(call, append, f"#{place}") for place, append in enumerate(body.appends)]
        outcomes = await asyncio.gather(*map(self._ledger.commit, writes), return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, IdempotencyConflict):
                raise outcome
        if call.route is not None:
            _raise_first(outcomes)
        return replies.AppendedBatch(
            results=[
                await self._batch_result(call, append, outcome)
                for append, outcome in zip(body.appends, outcomes, strict=True)
            ]
        )

    async def _batch_result(
        self, call: Call, append: requests.AppendEvent, outcome: Outcome | BaseException
    ) -> replies.AppendOutcome:
        if isinstance(outcome, HiveError):
            return replies.AppendOutcome(session_id=append.session_id, **outcome.body())
        if isinstance(outcome, BaseException):
            raise outcome
        appended = self.answer_append(call, append, outcome)
        return replies.AppendOutcome(**appended.model_dump())

    def plan_state_set(self, call: Call, body: requests.SetState) -> Write:
        return call.write(SESSION, body.session_id, lambda heads, now: set_state(heads, body))

    def answer_state_set(self, call: Call, body: requests.SetState, outcome: Outcome) -> replies.StateSet:
        assert outcome.stamp is not None
        return replies.StateSet(
            session_id=body.session_id, key=body.key, revision=outcome.stamp.version, duplicate=outcome.duplicate
        )

    def plan_set_status(self, call: Call, body: requests.SetStatus) -> Write:
        return self._status(call, body.session_id, body.status)

    def plan_terminate(self, call: Call, body: requests.TerminateSession) -> Write:
        return self._status(call, body.session_id, "terminated")

    def plan_archive(self, call: Call, body: requests.ArchiveSession) -> Write:
        return self._status(call, body.session_id, "archived")

    def _status(self, call: Call, session_id: str, status: str) -> Write:
        return call.write(SESSION, session_id, lambda heads, now: change_status(heads, session_id, status))

    def plan_machine_put(self, call: Call, body: requests.PutMachine) -> Write:
        return call.write(MACHINE, body.name, lambda heads, now: put_machine(heads, body))

    def answer_machine(self, call: Call, body: Any, outcome: Outcome) -> replies.MachineView:
        assert outcome.stamp is not None
        stamp = outcome.stamp
        return replies.MachineView(
            name=stamp.id,
            version=stamp.version,
            definition=Machine.model_validate(outcome.record.definition),
            created_at=time_from_microseconds(stamp.at),
            created_by=stamp.actor,
        )

    async def machine_get(self, call: Call, body: requests.GetMachine) -> replies.MachineView:
        tenant = call.sender.tenant
        head = await self._ledger.head(MACHINE, tenant, body.name)
        version = body.version or (head.version if head else 0)
        record = await self._ledger.record(MACHINE, tenant, body.name, version) if version else None
        if record is None:
            raise reading.machine_not_found(body.name, body.version)
        return self.answer_machine(call, body, Outcome(record.stamp, record.value, None))

    async def get(self, call: Call, body: requests.GetSession) -> replies.SessionView:
        tenant = call.sender.tenant
        as_of: int | None = None
        if body.revision is not None:
            standing = await reading.session_at_revision(self._ledger, tenant, body.session_id, body.revision)
            as_of = standing[0].at
        elif body.at is not None:
            as_of = microseconds_from_time(body.at)
            standing = await reading.session_at_moment(self._ledger, tenant, body.session_id, as_of)
        else:
            standing = await reading.session_now(self._ledger, tenant, body.session_id)
        view = reading.view(self._ledger, tenant, standing, as_of=as_of)
        if not body.events:
            return replies.SessionView.model_construct(session=await view, events=[])
        newest = reading.read_events(self._ledger, tenant, standing, limit=body.events, reverse=True)
        session, (events, _) = await asyncio.gather(view, newest)
        return replies.SessionView.model_construct(session=session, events=list(reversed(events)))

    async def events(self, call: Call, body: requests.ListEvents) -> replies.EventPage:
        tenant = call.sender.tenant
        standing = await reading.session_now(self._ledger, tenant, body.session_id)
        after, before = await self._bounds(tenant, standing, body)
        events, more = await reading.read_events(
            self._ledger,
            tenant,
            standing,
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
        self, tenant: str, standing: reading.Standing, body: requests.ListEvents
    ) -> tuple[int, int | None]:
        """The page's sequences, between the caller's bounds, its moments and where the page before ended."""
        after, before = body.after or 0, body.before
        if body.since is not None:
            moment = microseconds_from_time(body.since)
            after = max(after, await reading.events_through(self._ledger, tenant, standing, moment - 1))
        if body.until is not None:
            moment = microseconds_from_time(body.until)
            end = await reading.events_through(self._ledger, tenant, standing, moment - 1) + 1
            before = end if before is None else min(before, end)
        if body.cursor is not None:
            reverse, sequence = reading.events_cursor(body.cursor, body.reverse)
            if reverse:
                before = sequence if before is None else min(before, sequence)
            else:
                after = max(after, sequence)
        return after, before

    async def state_get(self, call: Call, body: requests.GetState) -> replies.StateView:
        tenant = call.sender.tenant
        head, session = await reading.session_now(self._ledger, tenant, body.session_id)
        if body.key is None:
            state = await reading.whole_state(self._ledger, tenant, session)
            return replies.StateView(state=state, revision=head.version)
        if not is_shared(body.key):
            return replies.StateView(value=session.state.get(body.key), revision=head.version)
        id = scope_ids(session.user_id, session.app_name, session.project_id).get(body.key.partition(":")[0] + ":")
        scope = await self._ledger.head(SCOPE, tenant, id) if id else None
        value = scope.value.state.get(body.key) if scope and scope.value else None
        return replies.StateView(value=value, revision=scope.version if scope else 0)

    async def delete(self, call: Call, body: requests.DeleteSession) -> replies.SessionDeleted:
        session_id = body.session_id
        begun = await self._ledger.commit(
            call.write(DELETION, session_id, lambda heads, now: begin_deletion(heads, session_id))
        )
        stamp = await self._eraser.delete(call.sender, session_id, begun, cause=call.message_id)
        return replies.SessionDeleted(
            session_id=body.session_id, revision=stamp.version, deleted_at=time_from_microseconds(stamp.at)
        )

    async def fork(self, call: Call, body: requests.ForkSession) -> Session:
        session_id = body.new_session_id or new_id()
        require_announceable(call.sender.tenant, session_id, ())
        origin = await self._origin(call.sender.tenant, body)

        def decide(heads: Heads, now: int) -> Decision:
            # Here, so that a repeated request hears of its fork, whatever became of the origin since.
            if isinstance(origin, NotFound):
                raise origin
            return fork_session(heads, body.session_id, origin, session_id)

        outcome = await self._ledger.commit(call.write(SESSION, session_id, decide))
        return await self.answer_session(call, body, outcome)

    async def _origin(self, tenant: str, body: requests.ForkSession) -> Head[SessionHead] | NotFound:
        try:
            if body.revision is None:
                return (await reading.session_now(self._ledger, tenant, body.session_id))[0]
            return (await reading.session_at_revision(self._ledger, tenant, body.session_id, body.revision))[0]
        except NotFound as error:
            return error

    async def list(self, call: Call, body: requests.ListSessions) -> replies.SessionPage:
        return await list_sessions(self._ledger, call.sender.tenant, body)
