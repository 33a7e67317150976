"""Waiting until the index has what was written: a recall may ask for that, within a time."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Final

from hivemem_contracts.errors import Overloaded
from hivemem_contracts.limits import RECALL_WAIT_DEFAULT_MS
from hivemem_contracts.vectors.requests import Recall
from hivemem_runtime.background import Background
from hivemem_runtime.bus.connection import Client
from hivemem_runtime.bus.requests.admission import Shares
from hivemem_runtime.ledger.port import Committed, Ledger
from hivemem_vectors.pipeline.endpoints.peers import FeedPosition, MemoryService, SessionService
from hivemem_vectors.pipeline.entities import ITEM, session_named
from hivemem_vectors.recall.decisions.filters import range_below
from hivemem_vectors.recall.endpoints.index_lag import LONGEST_PAUSE_SECONDS, IndexLag, Waiter

RECALLS_WAITING: Final = 256
OFTEN_FOR: Final = 16
"""With more waiting recalls than this, each of them polls less often."""

ITEMS_LOOKED_AT: Final = 1_000
RETRY_AFTER_MS: Final = 250


class IndexWaiters(Background):
    """The recalls of this worker that wait for the index: at most `limit`, and half of them of one tenant."""

    def __init__(
        self, ledger: Ledger, memories: MemoryService, sessions: SessionService, *, limit: int = RECALLS_WAITING
    ) -> None:
        self._ledger = ledger
        self._feed = FeedPosition()
        self._catching_up = IndexLag(ledger, memories, sessions, self._feed)
        self._shares = Shares(limit)
        self._waiters: dict[str, set[Waiter]] = {}
        self._leaving = False
        ledger.on_commit(self._committed)

    @property
    def waiting(self) -> int:
        """Return the number of waiting recalls."""
        return self._shares.held

    async def start(self, client: Client) -> None:
        await self._feed.start(client)
        self._leaving = False

    async def stop(self) -> None:
        self.leave()
        await self._feed.stop()

    def leave(self) -> None:
        """Let every recall go on with the index as it is."""
        self._leaving = True
        now = asyncio.get_running_loop().time()
        for waiters in self._waiters.values():
            for waiter in waiters:
                if not waiter.limit.expired():
                    waiter.limit.reschedule(now)

    async def waited(self, tenant: str, body: Recall) -> bool:
        """Return whether the index has caught up with the recall's wish, once it has, or at the time limit."""
        wait_ms = RECALL_WAIT_DEFAULT_MS if body.wait_ms is None else body.wait_ms
        until = asyncio.get_running_loop().time() + wait_ms / 1_000
        prefix = body.namespace_prefix
        if body.min_version is not None and not await self.found(tenant, prefix, body.min_version, until):
            return False
        return not body.wait_ms or await self.caught_up(tenant, prefix, until, _named_sessions(body))

    async def found(self, tenant: str, prefix: str | None, version: int, until: float) -> bool:
        """Return whether an item below the prefix is indexed at the version or a later one. If there are too many items
        to look at, return whether everything is indexed that was written before."""
        newest = await self._newest(tenant, *range_below(prefix))
        if newest is not None and newest >= version:
            return True
        return await self._within(tenant, prefix, until, lambda waiter: self._found(waiter, version))

    async def caught_up(self, tenant: str, prefix: str | None, until: float, session_ids: Sequence[str] = ()) -> bool:
        """Return whether all acknowledged writes below the prefix, and in these sessions, are indexed."""
        return await self._within(tenant, prefix, until, self._catching_up.all_indexed, session_ids)

    async def _within(
        self,
        tenant: str,
        prefix: str | None,
        until: float,
        work: Callable[[Waiter], Awaitable[bool]],
        session_ids: Sequence[str] = (),
    ) -> bool:
        if self._leaving:
            return False
        if not self._shares.has_room(tenant):
            most = self._shares.limit
            detail = f"too many recalls of this tenant wait for the index, where {most} of all tenants may"
            raise Overloaded(detail, limit=most, retry_after_ms=RETRY_AFTER_MS)
        self._shares.take(tenant)
        try:
            async with (
                asyncio.timeout_at(until) as limit,
                self._registered(Waiter(tenant, prefix, limit, session_ids)) as waiter,
            ):
                waiter.longest_pause_seconds = LONGEST_PAUSE_SECONDS * max(1.0, self.waiting / OFTEN_FOR)
                return await work(waiter)
        except TimeoutError:
            return False
        finally:
            self._shares.done(tenant)

    @asynccontextmanager
    async def _registered(self, waiter: Waiter) -> AsyncGenerator[Waiter]:
        waiters = self._waiters.setdefault(waiter.tenant, set())
        waiters.add(waiter)
        try:
            yield waiter
        finally:
            waiters.discard(waiter)
            if not waiters:
                del self._waiters[waiter.tenant]

    def _committed(self, records: Sequence[Committed]) -> None:
        if not self._waiters:
            return
        for record in records:
            if record.entity is ITEM and not record.erased:
                for waiter in self._waiters.get(record.stamp.tenant, ()):
                    waiter.committed(record.stamp.id, record.head)

    async def _found(self, waiter: Waiter, version: int) -> bool:
        while waiter.indexed < version:
            newest = await self._newest(waiter.tenant, waiter.low, waiter.high)
            if newest is None:
                return await self._catching_up.all_indexed(waiter)
            if newest >= version:
                break
            await waiter.pause()
        return True

    async def _newest(self, tenant: str, low: str | None, high: str | None) -> int | None:
        """Return the newest indexed version there; None if there are too many items."""
        page = await self._ledger.covered(ITEM, tenant, "all", equals={}, low=low, high=high, limit=ITEMS_LOOKED_AT)
        if page.cursor is not None:
            return None
        versions = [item.values["indexed"] for item in page.items]
        return max([version for version in versions if isinstance(version, int)], default=0)


def _named_sessions(body: Recall) -> list[str]:
    """Return the sessions that a recall names."""
    named = session_named(body.namespace_prefix or "")
    return [*(body.session_ids or ()), *([] if named is None else [named])]
