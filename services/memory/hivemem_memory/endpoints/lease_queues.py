"""Waiting for a lease, in whichever worker: woken by the feed when somebody got it, by a timer when it ends."""

import asyncio
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from hivemem_contracts.errors import Overloaded, Unavailable
from hivemem_contracts.subjects import change_subject
from hivemem_memory.decisions.leasing import end_lease, give_up, lease_of
from hivemem_memory.entities.leases import LEASE, Lease, LeaseStep
from hivemem_memory.entities.memories import memory_address
from hivemem_runtime.background import Background
from hivemem_runtime.bus.connection import Client
from hivemem_runtime.bus.live import LiveChanges
from hivemem_runtime.clock import now_microseconds
from hivemem_runtime.ledger.places import place_of
from hivemem_runtime.ledger.port import Ledger, Write, system_write

RECORDS_AT_ONCE: Final = 50
_SOONEST_SECONDS: Final = 0.01


@dataclass(frozen=True, slots=True)
class LeasePlace:
    """Where a lease stands: in the ledger, and on the feed."""

    tenant: str
    id: str
    subject: str

    @classmethod
    def of(cls, tenant: str, namespace: str, key: str | None) -> "LeasePlace":
        """Raises `TooLarge` where its changes would have too long a subject."""
        return cls(tenant, place_of(namespace, key), change_subject(tenant, LEASE.name, memory_address(namespace, key)))


@dataclass(frozen=True, slots=True)
class Turn:
    """Somebody's place in a queue: since which version of the lease, and until when, in microseconds since 1970."""

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
class _Queue:
    """Those who wait here for one lease."""

    place: LeasePlace
    turns: dict[str, Turn] = field(default_factory=dict[str, Turn])
    looking: bool = False
    again: bool = False
    timer: asyncio.TimerHandle | None = None

    def fail(self, error: Exception) -> None:
        for turn in self.turns.values():
            turn.fail(error)


class Waiting(Background):
    """Everybody who waits in this worker. The queues themselves stand in the ledger."""

    def __init__(self, ledger: Ledger, limit: int) -> None:
        self._ledger = ledger
        self._limit = limit
        self._queues: dict[str, _Queue] = {}
        self.waiting = 0
        """How many requests wait in this worker."""
        self._leaving = False
        self._tasks: set[asyncio.Task[None]] = set()
        self._live = LiveChanges(f"hive.chg.*.{LEASE.name}.>", self._changed, self._look_everywhere)

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
        """Send away who waits, with their places kept: another worker takes them up where they ask again."""
        self._leaving = True
        for queue in self._queues.values():
            queue.fail(_stopping())

    def require_room(self) -> None:
        if self._leaving:
            raise _stopping()
        if self.waiting >= self._limit:
            raise Overloaded(f"{self._limit} requests wait for leases", limit=self._limit, retry_after_ms=250)

    async def until_granted(self, place: LeasePlace, turn: Turn) -> Lease | LeaseStep | None:
        """The lease once it is granted to the turn's ticket; None where the wait was over before."""
        if self._leaving:
            raise _stopping()
        queue = self._queues.setdefault(place.subject, _Queue(place))
        before = queue.turns.get(turn.ticket)
        if before is not None:
            # The same request once more: whoever sent it does not listen for the answer to the first one any more.
            before.fail(Unavailable("the request was sent again", retry_after_ms=1_000))
        queue.turns[turn.ticket] = turn
        self.waiting += 1
        try:
            self._look(queue)
            async with asyncio.timeout((turn.until - now_microseconds()) / 1_000_000):
                return await turn.grant
        except TimeoutError:
            return await self._give_up(place, turn)
        finally:
            self.waiting -= 1
            self._remove(queue, turn)

    def _remove(self, queue: _Queue, turn: Turn) -> None:
        if queue.turns.get(turn.ticket) is turn:
            del queue.turns[turn.ticket]
        if not queue.turns and self._queues.get(queue.place.subject) is queue:
            del self._queues[queue.place.subject]
            if queue.timer is not None:
                queue.timer.cancel()

    async def _give_up(self, place: LeasePlace, turn: Turn) -> LeaseStep | None:
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

    def _look(self, queue: _Queue) -> None:
        """See what has become of the lease: once more after the look that is under way, if one is."""
        queue.again = True
        if not queue.looking:
            queue.looking = True
            self._spawn(self._look_while_needed(queue))

    async def _look_while_needed(self, queue: _Queue) -> None:
        place = queue.place
        try:
            while queue.again and queue.turns:
                queue.again = False
                # Not who comes while this is read: they are in the queue, and what is read may be older than that.
                turns = tuple(queue.turns.values())
                lease = lease_of(await self._ledger.head(LEASE, place.tenant, place.id))
                await self._tell(place, turns, lease)
                self._set_timer(queue, lease.expires_at)
        except Exception as error:  # whatever it is, those who wait are told, and ask again if that can help
            queue.fail(error)
        finally:
            queue.looking = False

    async def _tell(self, place: LeasePlace, turns: Sequence[Turn], lease: Lease) -> None:
        waiting = {waiter[0] for waiter in lease.waiters}
        for turn in turns:
            if turn.ticket == lease.ticket:
                turn.end(lease)
            elif turn.ticket not in waiting:
                turn.end(await self._granted_since(place, turn))

    async def _granted_since(self, place: LeasePlace, turn: Turn) -> LeaseStep | None:
        """The step that granted it to who is in the queue no more; None if none did."""
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

    def _set_timer(self, queue: _Queue, expires_at: int | None) -> None:
        """For the end of the lease, where nobody may be left to announce it."""
        if queue.timer is not None:
            queue.timer.cancel()
        if expires_at is not None and queue.turns:
            seconds = max((expires_at - now_microseconds()) / 1_000_000, 0) + _SOONEST_SECONDS
            queue.timer = asyncio.get_running_loop().call_later(seconds, lambda: self._spawn(self._end(queue)))

    async def _end(self, queue: _Queue) -> None:
        place = queue.place
        try:
            await self._ledger.commit(
                system_write(place.tenant, LEASE, place.id, lambda heads, now: end_lease(heads, place.id, now))
            )
        except Exception as error:  # as above
            queue.fail(error)
        else:
            self._look(queue)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _stopping() -> Unavailable:
    return Unavailable("this worker stops; the place in the queue is kept", retry_after_ms=50)
