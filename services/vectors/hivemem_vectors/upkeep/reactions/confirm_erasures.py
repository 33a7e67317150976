"""Telling the memory service that what was erased is gone from the index, once that is so."""

import asyncio
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, Final, Protocol

import structlog

from hivemem_contracts.errors import NotFound
from hivemem_runtime.background import Timer, for_each_tenant
from hivemem_runtime.bus.feed_reading import FeedState
from hivemem_runtime.circuit_breaker import Breaker
from hivemem_runtime.ledger.places import place_of
from hivemem_runtime.ledger.port import Ledger, system_write
from hivemem_vectors.pipeline.decisions.points import parsed
from hivemem_vectors.pipeline.entities import ITEM
from hivemem_vectors.stores.ports import POINTS_PER_CALL, Condition, Equal, Filter, Page, StoredPoint, VectorStore
from hivemem_vectors.upkeep.decisions import confirmed, is_remnant, namespaces_of
from hivemem_vectors.upkeep.entities import REMOVAL, Removal

log = structlog.get_logger("hivemem.vectors")

SECONDS: Final = 1.0
AT_ONCE: Final = 100
ENDS_KEPT: Final = 10_000


class Erasures(Protocol):
    async def erasure(self, tenant: str, receipt: str) -> dict[str, Any] | None: ...

    async def confirm_erasure(self, tenant: str, receipt: str, removed: int) -> None: ...


class Feed(Protocol):
    async def end(self) -> FeedState: ...

    async def is_taken_up(self, tenant: str, prefix: str, end: FeedState) -> bool: ...


class Confirming(Timer):
    """An erasure is confirmed when it is done, the index has been told of all of it, and the store has no point of it.

    What is confirmed stays in the ledger: forgetting it would leave a tombstone that is no smaller, and make a removal
    that comes late begin to count anew.
    """

    def __init__(
        self,
        ledger: Ledger,
        store: VectorStore,
        breaker: Breaker,
        erasures: Erasures,
        feed: Feed,
        *,
        collection: str,
    ) -> None:
        super().__init__("confirming", (self.step,), SECONDS)
        self._ledger = ledger
        self._store = store
        self._breaker = breaker
        self._erasures = erasures
        self._feed = feed
        self._collection = collection
        self._ends: OrderedDict[tuple[str, str], FeedState] = OrderedDict()
        """By tenant and receipt: where the feed ended when the erasure was known to be done."""

    async def step(self) -> None:
        await for_each_tenant(self._ledger, REMOVAL, self.confirm)

    async def confirm(self, tenant: str) -> None:
        """Those that are open, the oldest first; what is not ready has its turn again."""
        page = await self._ledger.find(REMOVAL, tenant, "open", equals={}, limit=AT_ONCE)
        for head in page.items:
            if head.value is not None and self._breaker.state != "open":
                await self._confirm(tenant, head.id, head.value)

    async def _confirm(self, tenant: str, receipt: str, removal: Removal) -> None:
        erasure = await self._erasures.erasure(tenant, receipt)
        if erasure is None:
            log.warning("nobody knows of an erasure that the index has followed", tenant=tenant, receipt=receipt)
        elif not await self._is_told_of(tenant, erasure):
            return
        else:
            await self._remove_remnants(tenant, erasure)
            await self._erasures.confirm_erasure(tenant, receipt, removal.removed)
        await self._ledger.commit(
            system_write(tenant, REMOVAL, receipt, lambda heads, now: confirmed(heads, receipt, removal.removed))
        )
        self._ends.pop((tenant, receipt), None)

    async def _is_told_of(self, tenant: str, erasure: dict[str, Any]) -> bool:
        """An erasure is done once all of it is on the feed."""
        if erasure["status"] != "done":
            return False
        key = tenant, erasure["receipt"]
        end = await self._feed.end()
        if key not in self._ends or self._ends[key].identity != end.identity:
            self._ends[key] = end
            if len(self._ends) > ENDS_KEPT:
                self._ends.popitem(last=False)
        taken_up = [
            await self._feed.is_taken_up(tenant, namespace, self._ends[key])
            for namespace in namespaces_of(erasure["namespace"])
        ]
        return all(taken_up)

    async def _remove_remnants(self, tenant: str, erasure: dict[str, Any]) -> None:
        """What a crash left in the store, or an interrupted call. Raises where that cannot be known."""
        for condition in _conditions(erasure):
            after: str | None = None
            while True:
                page = await self._scroll(Filter(tenant, [condition]), after)
                names = await self._remnants(tenant, page.points)
                if names:
                    with self._breaker.guard():
                        await self._store.delete(self._collection, tenant, names)
                after = page.next
                if after is None:
                    break
                await asyncio.sleep(0)

    async def _remnants(self, tenant: str, points: Sequence[StoredPoint]) -> list[str]:
        named = {point.id: parsed(point.id) for point in points}
        heads = await self._ledger.heads(ITEM, tenant, list({name.place for name in named.values()}))
        items = {place: head.value for place, head in heads.items()}
        return [id for id, name in named.items() if is_remnant(name, items.get(name.place))]

    async def _scroll(self, where: Filter, after: str | None) -> Page:
        try:
            with self._breaker.guard():
                return await self._store.scroll(self._collection, where, after=after, limit=POINTS_PER_CALL)
        except NotFound:
            return Page([], None)  # no collection, no point


def _conditions(erasure: dict[str, Any]) -> list[Condition]:
    namespace, key = erasure["namespace"], erasure["key"]
    if key is not None:
        return [Equal("place", place_of(namespace, key))]
    return [Equal("below", name) for name in namespaces_of(namespace)]
