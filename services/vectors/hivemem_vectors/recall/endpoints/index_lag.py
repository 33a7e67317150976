"""The lag of the index: changes that are not on the feed yet, not taken up from it, or waiting.

Each of them is polled until the caller's time limit.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Final, TypeVar

from hivemem_contracts.errors import HiveError
from hivemem_contracts.identifiers import NAMESPACE_ROOTS
from hivemem_contracts.subjects import encode_token, namespace_tokens
from hivemem_runtime.bus.feed.reading import FeedState, StoredChange
from hivemem_runtime.clock import now_microseconds
from hivemem_runtime.ledger.current import current_values
from hivemem_runtime.ledger.pages import pages
from hivemem_runtime.ledger.places import place_of
from hivemem_runtime.ledger.port import Ledger
from hivemem_vectors.pipeline.decisions.changes import asking
from hivemem_vectors.pipeline.endpoints.peers import MEMORIES, SESSIONS, FeedPosition, MemoryService, SessionService
from hivemem_vectors.pipeline.entities import ITEM, SYNCED, Item, event_place
from hivemem_vectors.recall.decisions.filters import range_below

FIRST_PAUSE_SECONDS: Final = 0.005
LONGEST_PAUSE_SECONDS: Final = 0.05
ASKED_AGAIN_SECONDS: Final = 0.005
"""How long the position of a consumer is shared by all who wait."""

RECENT_MICROSECONDS: Final = 10_000_000
"""Older acknowledged writes are on the feed for sure."""

RECENT_MEMORIES: Final = 100
RECENT_EVENTS: Final = 100
WAITING_AT_ONCE: Final = 100

ResultT = TypeVar("ResultT")


class Waiter:
    """A recall that waits for the index. It is woken by commits of this worker, and polls for commits of others."""

    def __init__(
        self, tenant: str, prefix: str | None, limit: asyncio.Timeout, session_ids: Sequence[str] = ()
    ) -> None:
        self.tenant, self.prefix, self.session_ids = tenant, prefix, session_ids
        self.low, self.high = range_below(prefix)
        self.limit = limit
        self.indexed = 0
        """The newest version that this worker has indexed below the prefix since."""
        self.longest_pause_seconds = LONGEST_PAUSE_SECONDS
        self._pause_seconds = FIRST_PAUSE_SECONDS
        self._woken = asyncio.Event()

    def committed(self, place: str, item: Item) -> None:
        if self.low is None or self.high is None or self.low <= place < self.high:
            self.indexed = max(self.indexed, item.indexed or 0)
            self._woken.set()

    async def pause(self) -> None:
        """Longer and longer, unless something happens."""
        try:
            async with asyncio.timeout(self._pause_seconds):
                await self._woken.wait()
        except TimeoutError:
            self._pause_seconds = min(self._pause_seconds * 1.5, self.longest_pause_seconds)
        self._woken.clear()

    def is_too_late(self, item: Item) -> bool:
        """Return whether a waiting item is not retried before the time limit."""
        until = self.limit.when()
        assert until is not None, "every wait has its end"
        left = until - asyncio.get_running_loop().time()
        return (
            item.state != SYNCED
            and item.retry_at is not None
            and item.retry_at > now_microseconds() + int(left * 1_000_000)
        )


class IndexLag:
    """Follows the lag of the index by the ledger, the memory service and the feed."""

    def __init__(self, ledger: Ledger, memories: MemoryService, sessions: SessionService, feed: FeedPosition) -> None:
        self._ledger = ledger
        self._memories = memories
        self._sessions = sessions
        self._feed = feed
        self._taken_up: dict[str, tuple[float, int]] = {}
        self._asking = asyncio.Lock()

    async def all_indexed(self, waiter: Waiter) -> bool:
        """Return once everything acknowledged by now is indexed; False if an item will not be retried in time."""
        recent = await self._just_written(waiter)
        await self._until_taken_up(waiter)
        await self._until_heard(waiter, recent)
        return await self._until_none_waits(waiter)

    async def _just_written(self, waiter: Waiter) -> dict[str, int]:
        """Return versions that may be acknowledged and not on the feed yet."""
        since = now_microseconds() - RECENT_MICROSECONDS
        ask = partial(self._memories.written_since, waiter.tenant, moment=since, limit=RECENT_MEMORIES)
        prefixes = NAMESPACE_ROOTS if waiter.prefix is None else (waiter.prefix,)
        written = await asyncio.gather(*[_patiently(waiter, partial(ask, prefix)) for prefix in prefixes])
        found = {
            place_of(memory["namespace"], memory["key"]): memory["version"]
            for memories in written
            for memory in memories
        }
        for session_id in waiter.session_ids:
            found |= await self._just_appended(waiter, session_id, since)
        return found

    async def _just_appended(self, waiter: Waiter, session_id: str, since: int) -> dict[str, int]:
        """Return events of a session that may be acknowledged and not on the feed yet."""
        read = partial(self._sessions.session, waiter.tenant, session_id)
        session = await _patiently(waiter, read)
        wanted = None if session is None else asking(waiter.tenant, session)
        if wanted is None:
            return {}
        ask = partial(self._sessions.appended_since, waiter.tenant, session_id, since, RECENT_EVENTS)
        events = await _patiently(waiter, ask)
        return {
            event_place(session_id, event["event_id"]): event["sequence"]
            for event in events
            if event["sequence"] > wanted.after
        }

    async def _until_taken_up(self, waiter: Waiter) -> None:
        """Wait for every change that is on the feed now. A change of the feed's identity starts it over, because the
        sequences belong to other changes then."""
        before: FeedState | None = None
        state = await _patiently(waiter, self._feed.end)
        while before is None or state.identity != before.identity:
            before = state
            await self._until_taken_up_through(waiter, state.last_sequence)
            state = await _patiently(waiter, self._feed.end)

    async def _until_taken_up_through(self, waiter: Waiter, end: int) -> None:
        for consumer, subject in _subjects(waiter.tenant, waiter.prefix):
            reached = 0
            while True:
                reached = max(reached, await _patiently(waiter, partial(self._taken_up_through, consumer)))
                change = await _patiently(waiter, partial(self._feed.reading.next, subject, reached))
                if change is None or change.sequence > end:
                    break
                await self._until_known(waiter, consumer, change)
                reached = change.sequence

    async def _until_known(self, waiter: Waiter, consumer: str, change: StoredChange) -> None:
        """Wait until the ledger has a change, or else until it is acknowledged, which earlier ones may hold up."""
        told = change.change()
        if told is None:
            return
        version = None if told.key is None else {place_of(told.namespace, told.key): told.version}
        while version is None or not await self._has_heard(waiter, version):
            await waiter.pause()
            if await _patiently(waiter, partial(self._taken_up_through, consumer)) >= change.sequence:
                break

    async def _taken_up_through(self, consumer: str) -> int:
        async with self._asking:
            asked_at, sequence = self._taken_up.get(consumer, (0.0, 0))
            now = asyncio.get_running_loop().time()
            if now - asked_at > ASKED_AGAIN_SECONDS:
                sequence = await self._feed.reading.acknowledged(consumer)
                self._taken_up[consumer] = (now, sequence)
            return sequence

    async def _until_heard(self, waiter: Waiter, versions: Mapping[str, int]) -> None:
        while not await self._has_heard(waiter, versions):
            await waiter.pause()

    async def _has_heard(self, waiter: Waiter, versions: Mapping[str, int]) -> bool:
        items = await self._items(waiter, list(versions))
        return all(place in items and items[place].heard >= version for place, version in versions.items())

    async def _until_none_waits(self, waiter: Waiter) -> bool:
        """Wait for the items that wait for the index now. Returns False if one of them will not be retried in time."""
        in_time = True
        async for heads in pages(
            lambda cursor: self._ledger.find(
                ITEM,
                waiter.tenant,
                "waiting",
                equals={},
                low=waiter.low,
                high=waiter.high,
                cursor=cursor,
                limit=WAITING_AT_ONCE,
            )
        ):
            versions = {head.id: head.value.heard for head in heads if head.value is not None}
            in_time = await self._until_indexed(waiter, versions) and in_time
        return in_time

    async def _until_indexed(self, waiter: Waiter, versions: dict[str, int]) -> bool:
        in_time = True
        while versions:
            items = await self._items(waiter, list(versions))
            late = {place for place, item in items.items() if waiter.is_too_late(item)}
            in_time = in_time and not late
            versions = {
                place: version
                for place, version in versions.items()
                if place in items and place not in late and not _has(items[place], version)
            }
            if versions:
                await waiter.pause()
        return in_time

    async def _items(self, waiter: Waiter, places: Sequence[str]) -> dict[str, Item]:
        return await current_values(self._ledger, ITEM, waiter.tenant, places)


async def _patiently(waiter: Waiter, ask: Callable[[], Awaitable[ResultT]]) -> ResultT:
    """Repeat a call until somebody answers it."""
    while True:
        try:
            return await ask()
        except HiveError as error:
            if not error.retryable:
                raise
        await waiter.pause()


def _has(item: Item, version: int) -> bool:
    return item.gone or (item.indexed is not None and item.indexed >= version)


def _subjects(tenant: str, prefix: str | None) -> list[tuple[str, str]]:
    """Return the consumers of the feed, each with the subject that it has to take up."""
    start = f"hive.chg.{encode_token(tenant)}"
    tokens = () if prefix is None else namespace_tokens(prefix)
    subjects = [(MEMORIES, ".".join([start, "memory", *tokens, ">"]))]
    if tokens[:1] in ((), ("session",)) and len(tokens) <= 2:
        session = "*" if len(tokens) < 2 else tokens[1]
        subjects += [(SESSIONS, f"{start}.{entity}.{session}") for entity in ("session", "event")]
    return subjects
