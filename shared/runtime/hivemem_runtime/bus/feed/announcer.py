"""Announcing: every committed record on the feed, exactly once per version, in version order per key.

The store is the outbox: records above a key's announced mark are due. The worker that commits announces right away.
Before a record is sent, its predecessor is known to be on the feed or is sent first. A sweep sends what a crash or a
lost connection left due. The publisher leaves out records that are on the feed already, and the server refuses them.
One wave is under way at a time.

Before anything is sent over a new connection, and every few seconds, the feed is compared with the ledger's feed mark.
If the feed lost messages, the ledger makes its keys due again, and they are announced again."""

import asyncio
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import nats.errors
import structlog
from nats.aio.client import Client

from hivemem_contracts.errors import HiveError, Unavailable
from hivemem_runtime.backoff import Backoff
from hivemem_runtime.bounded import BoundedDict
from hivemem_runtime.bus.feed.guard import FeedGuard
from hivemem_runtime.bus.feed.publisher import Outgoing, Publisher, PublishFailed, encode_announcement
from hivemem_runtime.bus.feed.subject_places import FeedDoubtful, LedgerOlder
from hivemem_runtime.bus.jetstream import JetStreamRefused
from hivemem_runtime.bus.streams import StreamConflict, StreamSettings
from hivemem_runtime.clock import elapsed_seconds
from hivemem_runtime.ledger.entity import Announcement, AnyEntity, Stamp
from hivemem_runtime.ledger.port import Committed, Due, Ledger

log = structlog.get_logger("hivemem.announcer")

WAVE_RECORDS: Final = 500
QUEUE_RECORDS: Final = 50_000
"""Past this nothing is queued any more: the store knows what is due, and the sweep sends it."""

KNOWN_KEYS: Final = 50_000
SWEEP_SECONDS: Final = 1.0
SWEEP_AGE_SECONDS: Final = 2.0
SWEEP_KEYS: Final = 200
ANY_AGE_SECONDS: Final = 5.0
"""The pause between two sweeps that take due keys of any age."""
ANY_AGE: Final = 2**62
SWEEP_SHARE_SECONDS: Final = 0.05
"""While the queue is not empty, sweeps and the queue take turns of about this length."""
FLUSH_SECONDS: Final = 10.0
STALLED_SECONDS: Final = 5.0
"""The announcer reports trouble after failing for this long."""
FIRST_RETRY_SECONDS: Final = 0.05
LONGEST_RETRY_SECONDS: Final = 1.0

Key = tuple[str, str, str]


class Announcer:
    """Listens to a ledger's commits and publishes them, from `start` to `stop`; it may be started again."""

    def __init__(self, ledger: Ledger, entities: Sequence[AnyEntity], *, clock: Any = None) -> None:
        self._client: Client | None = None
        self._publisher: Publisher | None = None
        self._ledger = ledger
        self._entities: Mapping[str, AnyEntity] = {entity.name: entity for entity in entities if entity.history}
        """Of others there is nothing to announce, and no record to be found."""
        self._clock = clock or (lambda: time.time_ns() // 1_000)
        self._queue: deque[Committed] = deque()
        self._wanted: deque[tuple[Due, asyncio.Future[None]]] = deque()
        self._out = BoundedDict[Key, int](KNOWN_KEYS)
        self._left = 0
        """How many records ever left the queue."""
        self._awaited: deque[tuple[int, asyncio.Future[None]]] = deque()
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._stopping = self._ended = False
        self._guard = FeedGuard(ledger, tuple(self._entities.values()), self._wake.set)
        self._was_checked = asyncio.Event()
        self._failing_since: float | None = None
        self._failure = ""
        self._any_age_at = 0.0
        self._swept = 0.0
        self._flushed = False
        """Whether the last step flushed a key that somebody waits for."""
        self.published = 0
        ledger.on_commit(self._committed)

    def start(self, client: Client, streams: StreamSettings | None = None) -> None:
        """Start announcing; the streams have to be declared. Earlier commits are found in the store."""
        self._left += len(self._queue)
        self._queue.clear()
        self._out.clear()
        self._stopping = self._ended = False
        self._client, self._publisher = client, None
        self._guard.start(client, streams or StreamSettings())
        self._failing_since = None
        self._any_age_at = 0.0
        self._was_checked.clear()
        self._task = asyncio.create_task(self._run(), name="hivemem-announcer")

    async def stop(self, timeout_seconds: float = 5.0) -> None:
        """Send what is queued, within a time; what is left stays due in the store."""
        self._stopping = True
        self._wake.set()
        if self._task is not None:
            await asyncio.wait([self._task], timeout=timeout_seconds)
            # Before Python 3.12, a cancellation is lost on who gets an answer at the same moment.
            self._ended = True
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None
        await self._guard.stop()
        if self._publisher is not None:
            await self._publisher.close()

    def status(self) -> dict[str, Any]:
        status: dict[str, Any] = {"queued": len(self._queue), "published": self.published, "losses": self._guard.losses}
        if self._task is not None and self._task.done():
            status["trouble"] = "the task that announces changes has ended"
        elif self._failing_since is not None and elapsed_seconds() - self._failing_since > STALLED_SECONDS:
            status["trouble"] = f"changes cannot be announced: {self._failure}"
        return status

    async def checked(self) -> None:
        """Return once the feed and the ledger were compared for the first time. Before that, a commit to a ledger that
        is older than the feed could use a version a second time. Raises `Unavailable`."""
        try:
            async with asyncio.timeout(FLUSH_SECONDS):
                await self._was_checked.wait()
        except TimeoutError as error:
            raise Unavailable(f"the feed cannot be checked: {self._failure}", retry_after_ms=1000) from error

    async def flush(self, entity: AnyEntity, tenant: str, id: str, version: int, announced: int) -> None:
        """Return once everything of a key through `version` is on the feed; through `announced` it is known to be."""
        await self._flush(Due(tenant, entity.name, id, announced, version, False, 0))

    async def flush_tombstone(self, stamp: Stamp) -> None:
        """Return once an erasure is on the feed; everything before it is already."""
        announced = stamp.version - 1
        await self._flush(
            Due(
                stamp.tenant, stamp.entity, stamp.id, announced, stamp.version, True, stamp.at, stamp.actor, stamp.cause
            )
        )

    async def rely(self, feed: str, sequence: int, message: str) -> None:
        """Return once the ledger knows durably that the feed held this message. Then even a worker that just began
        notices that the feed lost it. Raises `Unavailable`."""
        self._guard.rely(feed, sequence, message)
        await self._ledger.due(older_than=0, limit=1)  # which makes marks durable first

    async def caught_up(self) -> None:
        """Return once everything that was committed here before now is on the feed. Raises `Unavailable`."""
        if not self._queue:
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._awaited.append((self._left + len(self._queue), future))
        try:
            async with asyncio.timeout(FLUSH_SECONDS):
                await future
        except TimeoutError as error:
            raise Unavailable("what was written could not be announced", retry_after_ms=500) from error

    async def _flush(self, due: Due) -> None:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._wanted.append((due, future))
        self._wake.set()
        try:
            async with asyncio.timeout(FLUSH_SECONDS):
                await future
        except TimeoutError as error:
            raise Unavailable(f"{due.entity} {due.id!r} could not be announced", retry_after_ms=500) from error

    def _committed(self, records: Sequence[Committed]) -> None:
        for record in records:
            if record.entity.history and len(self._queue) < QUEUE_RECORDS:
                self._queue.append(record)
        self._wake.set()

    async def _run(self) -> None:
        backoff = Backoff(FIRST_RETRY_SECONDS, LONGEST_RETRY_SECONDS)
        self._swept = 0.0
        while not self._ended and not (self._stopping and not self._queue):
            try:
                await self._step()
                backoff.succeeded()
                self._failing_since = None
            except FeedDoubtful as error:
                log.warning("the feed is looked at again", error=str(error))
                self._guard.doubt()
            except LedgerOlder as error:
                self._guard.suspect(str(error))
            except (PublishFailed, HiveError, JetStreamRefused, StreamConflict, nats.errors.Error) as error:
                # The stream may have changed.
                self._guard.doubt()
                wait = backoff.failed()
                self._failed(str(error))
                log.warning("announcing again", error=str(error), wait_seconds=wait, queued=len(self._queue))
                await asyncio.sleep(wait)
            except Exception as error:
                # A worker that goes on committing must go on announcing, whatever the error is.
                self._failed(repr(error))
                log.exception("announcing failed", queued=len(self._queue))
                await asyncio.sleep(LONGEST_RETRY_SECONDS)

    async def _step(self) -> None:
        """Do what is next. Sweeps and the queue have a turn after each key that somebody waits for."""
        sweep_is_due = elapsed_seconds() - self._swept >= SWEEP_SECONDS
        if self._guard.doubtful():
            await self._check()
        elif self._wanted and not (self._flushed and (sweep_is_due or self._queue)):
            self._flushed = True
            await self._flush_wanted()
        elif sweep_is_due:
            # Before the queue, which need never be empty.
            self._flushed = False
            done = await self._sweep()
            self._swept = elapsed_seconds() - (0 if done else SWEEP_SECONDS - SWEEP_SHARE_SECONDS)
        elif self._queue:
            self._flushed = False
            await self._wave()
        else:
            await self._wait()

    def _failed(self, reason: str) -> None:
        self._failure = reason
        if self._failing_since is None:
            self._failing_since = elapsed_seconds()

    async def _check(self) -> None:
        """Look at the feed, and begin again from the store where it lost something."""
        assert self._client is not None, "it was started"
        lost = await self._guard.check()
        if lost:
            await self._begin_again()
        if self._publisher is None:
            guard = self._guard
            self._publisher = Publisher(self._client, guard.signer.key, guard.stream, self._newest, guard.unchecked)
        self._was_checked.set()

    async def _newest(self, key: Key) -> int:
        """Return the newest version of a key in the ledger."""
        entity, tenant, id = key
        head = await self._ledger.head(self._entities[entity], tenant, id)
        return 0 if head is None else head.version

    async def _begin_again(self) -> None:
        """Forget what was out and what is queued: all of it is due in the store."""
        if self._publisher is not None:
            await self._publisher.close()
        self._publisher = None
        self._out.clear()
        self._left += len(self._queue)
        self._queue.clear()
        self._wanted = deque((replace(due, announced=0), future) for due, future in self._wanted)
        while self._awaited:
            future = self._awaited.popleft()[1]
            if not future.done():
                future.set_exception(Unavailable("changes are announced again", retry_after_ms=500))

    async def _wait(self) -> None:
        self._wake.clear()
        if self._queue or self._wanted or self._stopping:
            return
        try:
            await asyncio.wait_for(self._wake.wait(), SWEEP_SECONDS)
        except TimeoutError:
            return

    async def _wave(self) -> None:
        """The records at the front of the queue. They leave it once they are acknowledged."""
        taken = min(len(self._queue), WAVE_RECORDS)
        reached: dict[Key, int] = {}
        outgoing: list[Outgoing] = []
        for place in range(taken):
            record = self._queue[place]
            stamp = record.stamp
            key = (stamp.entity, stamp.tenant, stamp.id)
            known = reached.get(key) or max(self._out.get(key, 0), record.announced)
            if stamp.version <= known:
                continue
            if stamp.version > known + WAVE_RECORDS:
                # Too many to go out with a wave: from the store, a part at a time.
                due = Due(stamp.tenant, stamp.entity, stamp.id, known, stamp.version - 1, False, stamp.at)
                await self._catch_up(due, key)
                known = stamp.version - 1
            elif stamp.version > known + 1:
                outgoing += await self._missing(record.entity, stamp, known)
            outgoing += self._outgoing(record.entity, stamp, record.record, record.erased)
            reached[key] = stamp.version
        await self._publish(outgoing)
        for _ in range(taken):
            self._queue.popleft()
        self._reached(reached)
        self._left += taken
        while self._awaited and self._awaited[0][0] <= self._left:
            future = self._awaited.popleft()[1]
            if not future.done():
                future.set_result(None)

    async def _missing(self, entity: AnyEntity, stamp: Stamp, known: int) -> list[Outgoing]:
        """Records that somebody else committed and may not have announced yet."""
        outgoing: list[Outgoing] = []
        while known + 1 < stamp.version:
            records = await self._ledger.history(
                entity, stamp.tenant, stamp.id, after=known, before=stamp.version, limit=WAVE_RECORDS
            )
            if not records:
                break
            for record in records:
                outgoing += self._outgoing(entity, record.stamp, record.value, erased=False)
            known = records[-1].stamp.version
        return outgoing

    async def _flush_wanted(self) -> None:
        due, future = self._wanted[0]
        await self._catch_up(due, (due.entity, due.tenant, due.id))
        self._wanted.popleft()
        if not future.done():
            future.set_result(None)

    async def _sweep(self) -> bool:
        """Announce due keys from the store. Return whether none of them had to wait for the queue.

        The age of a commit is by the clock of the worker that made it, which may have been hours ahead. So a sweep
        takes due keys of any age at first, and now and then when the queue is empty.
        """
        older_than = self._clock() - int(SWEEP_AGE_SECONDS * 1_000_000)
        any_age = not self._queue and elapsed_seconds() >= self._any_age_at
        if any_age:
            older_than = ANY_AGE
        elif self._queue:
            # Later commits are in the queue or follow: waves announce them many times as cheaply.
            older_than = min(older_than, self._queue[0].stamp.at)
        until = elapsed_seconds() + SWEEP_SHARE_SECONDS
        found = await self._ledger.due(older_than=older_than, limit=SWEEP_KEYS)
        if any_age and len(found) < SWEEP_KEYS:
            self._any_age_at = elapsed_seconds() + ANY_AGE_SECONDS
        for due in found:
            await self._catch_up(due, (due.entity, due.tenant, due.id))
            if self._queue and elapsed_seconds() >= until:
                return False
        return True

    async def _catch_up(self, due: Due, key: Key) -> None:
        """Everything of one key that is due, from the store."""
        entity = self._entities.get(due.entity)
        known = max(due.announced, self._out.get(key, 0))
        while entity is not None and known < due.version:
            records = await self._ledger.history(entity, due.tenant, due.id, after=known, limit=WAVE_RECORDS)
            outgoing = [
                message
                for record in records
                for message in self._outgoing(entity, record.stamp, record.value, erased=False)
            ]
            reached = records[-1].stamp.version if records else known
            if len(records) < WAVE_RECORDS and due.erased:
                stamp = Stamp(due.tenant, due.entity, due.id, due.version, due.at, due.actor, due.cause)
                outgoing += self._outgoing(entity, stamp, None, erased=True)
                reached = due.version
            if reached == known:
                break
            await self._publish(outgoing)
            known = reached
            self._reached({key: known})
        if entity is not None and known >= due.version:
            self._ledger.announced(due.entity, due.tenant, due.id, known)

    async def _publish(self, outgoing: Sequence[Outgoing]) -> None:
        assert self._publisher is not None, "the feed was looked at"
        await self._publisher.publish(outgoing)
        self.published += len(outgoing)
        self._guard.note(*self._publisher.last)

    def _outgoing(self, entity: AnyEntity, stamp: Stamp, record: Any, erased: bool) -> list[Outgoing]:
        announcements: tuple[Announcement, ...]
        if stamp.at < self._guard.begins:
            return []
        if erased:
            announcements = entity.announce_erased(stamp) if entity.announce_erased else ()
        else:
            announcements = entity.announce(record, stamp)
        outgoing: list[Outgoing] = []
        for announcement in announcements:
            try:
                outgoing.append(encode_announcement(announcement, stamp, self._guard.signer))
            except HiveError as error:
                # No service may let it come to this, but one that does must not silence all the others.
                log.error(  # noqa: TRY400  # its text says it all
                    "a change cannot be announced", entity=entity.name, id=stamp.id, error=str(error)
                )
        return outgoing

    def _reached(self, reached: Mapping[Key, int]) -> None:
        for key, version in reached.items():
            self._out[key] = version
            self._ledger.announced(*key, version)
