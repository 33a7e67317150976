"""The queues of agents waiting for a lease. The feed wakes a waiter when the lease changes, and a timer when it
expires."""

import asyncio
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from hivemem_contracts.errors import Overloaded, Unavailable
from hivemem_contracts.subjects import change_subject
from hivemem_memory.decisions.leases import end_lease, give_up, lease_of
from hivemem_memory.entities.leases import LEASE, Lease, LeaseStep
from hivemem_memory.entities.memories import memory_address
from hivemem_runtime.background import Background
from hivemem_runtime.bus.connection import Client
from hivemem_runtime.bus.feed.live import LiveChanges
from hivemem_runtime.bus.requests.admission import Shares
from hivemem_runtime.clock import now_microseconds
from hivemem_runtime.ledger.places import place_of
from hivemem_runtime.ledger.port import Ledger, Write, system_write

RECORDS_AT_ONCE: Final = 50
_SOONEST_SECONDS: Final = 0.01


@dataclass(frozen=True, slots=True)
class LeaseAddress:
    """The key of a lease in the ledger, and the subject of its changes."""

    tenant: str
    id: str
    subject: str

    @classmethod
    def of(cls, tenant: str, namespace: str, key: str | None) -> "LeaseAddress":
        """Return the address of a lease. Raises `TooLarge` if its changes would exceed the subject limit."""
        return cls(tenant, place_of(namespace, key), change_subject(tenant, LEASE.name, memory_address(namespace, key)))


@dataclass(frozen=True, slots=True)
class QueuedRequest:
    """A request in a queue: the version of the lease at which it joined, and its deadline in microseconds since
    1970."""

    ticket: str
    agent: str
    cause: str
    since: int
    until: int
    grant: "asyncio.Future[Lease | LeaseStep | None]" = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )

    def end(self, grant: Lease | LeaseStep | None) -> None:
        if not self.grant.done():
            self.grant.set_result(grant)

    def fail(self, error: Exception) -> None:
        if not self.grant.done():
            self.grant.set_exception(error)


@dataclass(slots=True)
class _LocalQueue:
    """The requests that wait on this worker for one lease."""

    place: LeaseAddress
    turns: dict[str, QueuedRequest] = field(default_factory=dict[str, QueuedRequest])
    looking: bool = False
    again: bool = False
    timer: asyncio.TimerHandle | None = None

    def fail(self, error: Exception) -> None:
        for turn in self.turns.values():
            turn.fail(error)


class LeaseQueues(Background):
    """All requests that wait for leases on this worker. The order of each queue is in the ledger."""

    def __init__(self, ledger: Ledger, limit: int) -> None:
        self._ledger = ledger
        self._shares = Shares(limit)
        self._queues: dict[str, _LocalQueue] = {}
        self._leaving = False
        self._tasks: set[asyncio.Task[None]] = set()
        self._live = LiveChanges(f"hive.chg.*.{LEASE.name}.>", self._changed, self._look_everywhere)

    @property
    def waiting(self) -> int:
        """Return the number of requests that wait on this worker."""
        return self._shares.held

    async def start(self, client: Client) -> None:
        self._leaving = False
        await self._live.start(client)

    async def stop(self) -> None:
        self.leave()
        await self._live.stop()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def leave(self) -> None:
        """Refuse all waiting requests, and keep their positions in the queues: a retry on another worker continues
        the wait."""
        self._leaving = True
        for queue in self._queues.values():
            queue.fail(_stopping())

    def require_room(self, tenant: str) -> None:
        if self._leaving:
            raise _stopping()
        if not self._shares.has_room(tenant):
            limit = self._shares.limit
            detail = f"too many requests of this tenant wait for leases; the limit for all tenants is {limit}"
            raise Overloaded(detail, limit=limit, retry_after_ms=250)

    async def until_granted(self, place: LeaseAddress, turn: QueuedRequest) -> Lease | LeaseStep | None:
        """Return the lease once it is granted to the request's ticket, or None at the deadline."""
        if self._leaving:
            raise _stopping()
        queue = self._queues.setdefault(place.subject, _LocalQueue(place))
        before = queue.turns.get(turn.ticket)
        if before is not None:
            # This is a retry, and its sender no longer listens for the first reply.
            before.fail(Unavailable("the request was retried", retry_after_ms=1_000))
        queue.turns[turn.ticket] = turn
        self._shares.take(place.tenant)
        try:
            self._look(queue)
            async with asyncio.timeout((turn.until - now_microseconds()) / 1_000_000):
                return await turn.grant
        except TimeoutError:
            return await self._give_up(place, turn)
        finally:
            self._shares.done(place.tenant)
            self._remove(queue, turn)

    def _remove(self, queue: _LocalQueue, turn: QueuedRequest) -> None:
        if queue.turns.get(turn.ticket) is turn:
            del queue.turns[turn.ticket]
        if not queue.turns and self._queues.get(queue.place.subject) is queue:
            del self._queues[queue.place.subject]
            if queue.timer is not None:
                queue.timer.cancel()

    async def _give_up(self, place: LeaseAddress, turn: QueuedRequest) -> LeaseStep | None:
        outcome = await self._ledger.commit(
            Write(
                place.tenant,
                turn.agent,
                LEASE,
                place.id,
                lambda heads, now: give_up(heads, place.id, turn.ticket, now),
                cause=turn.cause,
            )
        )
        step: LeaseStep | None = outcome.record
        if step is None:
            return await self._granted_since(place, turn)
        return step if step.ticket == turn.ticket else None

    def _changed(self, subject: str, data: bytes) -> None:
        queue = self._queues.get(subject)
        if queue is not None:
            self._look(queue)

    def _look_everywhere(self) -> None:
        for queue in self._queues.values():
            self._look(queue)

    def _look(self, queue: _LocalQueue) -> None:
        """Read the lease, after the current read if one is running."""
        queue.again = True
        if not queue.looking:
            queue.looking = True
            self._spawn(self._look_while_needed(queue))

    async def _look_while_needed(self, queue: _LocalQueue) -> None:
        place = queue.place
        try:
            while queue.again and queue.turns:
                queue.again = False
                # Later requests are left out, because the lease that is read here may be older than their ticket.
                turns = tuple(queue.turns.values())
                lease = lease_of(await self._ledger.head(LEASE, place.tenant, place.id))
                await self._tell(place, turns, lease)
                self._set_timer(queue, lease.expires_at)
        except Exception as error:  # every waiting request gets the error, and is retried if that can help
            queue.fail(error)
        finally:
            queue.looking = False

    async def _tell(self, place: LeaseAddress, turns: Sequence[QueuedRequest], lease: Lease) -> None:
        waiting = {waiter[0] for waiter in lease.waiters}
        for turn in turns:
            if turn.ticket == lease.ticket:
                turn.end(lease)
            elif turn.ticket not in waiting:
                turn.end(await self._granted_since(place, turn))

    async def _granted_since(self, place: LeaseAddress, turn: QueuedRequest) -> LeaseStep | None:
        """Return the step that granted the lease to a ticket that is no longer queued, or None."""
        after = turn.since
        while True:
            records = await self._ledger.history(LEASE, place.tenant, place.id, after=after, limit=RECORDS_AT_ONCE)
            for record in records:
                if record.value.ticket == turn.ticket:
                    return record.value
                if turn.ticket in record.value.left:
                    return None
            if len(records) < RECORDS_AT_ONCE:
                return None
            after = records[-1].stamp.version

    def _set_timer(self, queue: _LocalQueue, expires_at: int | None) -> None:
        """Set a timer for the expiry of the lease, because a crashed holder announces no release."""
        if queue.timer is not None:
            queue.timer.cancel()
        if expires_at is not None and queue.turns:
            seconds = max((expires_at - now_microseconds()) / 1_000_000, 0) + _SOONEST_SECONDS
            queue.timer = asyncio.get_running_loop().call_later(seconds, lambda: self._spawn(self._end(queue)))

    async def _end(self, queue: _LocalQueue) -> None:
        place = queue.place
        try:
            await self._ledger.commit(
                system_write(place.tenant, LEASE, place.id, lambda heads, now: end_lease(heads, place.id, now))
            )
        except Exception as error:  # see above
            queue.fail(error)
        else:
            self._look(queue)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _stopping() -> Unavailable:
    return Unavailable("this worker is stopping; the position in the queue is kept", retry_after_ms=50)
