"""The timer that confirms erasures to the memory service, once the index has no trace of them."""

import asyncio
from collections.abc import Sequence
from typing import Any, Final

import structlog

from hivemem_contracts.memory.changes import ERASURES_FOLLOWED
from hivemem_runtime.background import Timer, for_each_tenant
from hivemem_runtime.bounded import BoundedDict
from hivemem_runtime.bus.feed.reading import FeedState
from hivemem_runtime.bus.reactions.runner import Reaction, ReceivedChange
from hivemem_runtime.ledger.current import current_values
from hivemem_runtime.ledger.places import place_of
from hivemem_runtime.ledger.port import Ledger, Write, system_write
from hivemem_vectors.pipeline.decisions.points import parsed
from hivemem_vectors.pipeline.endpoints.peers import WORKER, FeedPosition, MemoryService
from hivemem_vectors.pipeline.entities import ITEM
from hivemem_vectors.stores.guarded import GuardedStore
from hivemem_vectors.stores.ports import Condition, Equal, Filter, StoredPoint
from hivemem_vectors.upkeep.decisions import awaited, confirmed, is_remnant, namespaces_of
from hivemem_vectors.upkeep.entities import REMOVAL, Removal

log = structlog.get_logger("hivemem.vectors")

SECONDS: Final = 1.0
AT_ONCE: Final = 100
ENDS_KEPT: Final = 10_000


def erasures_reaction(ledger: Ledger, confirmer: "ErasureConfirmer") -> Reaction:
    """Return the reaction that hears which erasures await this service, also those that removed nothing here."""

    async def follow(changes: Sequence[ReceivedChange]) -> None:
        for received in changes:
            if received.change.operation == "removed":
                await ledger.commit(_await(received.change.tenant, received.change.namespace))
        confirmer.wake()

    return Reaction(ERASURES_FOLLOWED, ("hive.chg.*.erasure.*",), follow)


def _await(tenant: str, receipt: str) -> Write:
    return system_write(tenant, REMOVAL, receipt, lambda heads, now: awaited(heads, receipt, now))


class ErasureConfirmer(Timer):
    """Confirms an erasure when its memories are removed, the index has taken up all of it, and the store has no point
    of it.

    A confirmed removal stays in the ledger: forgetting it would leave a tombstone of the same size, and a late removal
    would begin to count anew.
    """

    def __init__(
        self,
        ledger: Ledger,
        store: GuardedStore,
        memories: MemoryService,
        feed: FeedPosition,
        *,
        collection: str,
    ) -> None:
        super().__init__("confirming", (self.step,), SECONDS)
        self._ledger = ledger
        self._store = store
        self._memories = memories
        self._feed = feed
        self._collection = collection
        self._ends = BoundedDict[tuple[str, str], FeedState](ENDS_KEPT)
        """By tenant and receipt: the end of the feed when the erasure was known to be done."""

    async def step(self) -> None:
        await for_each_tenant(self._ledger, REMOVAL, self.confirm)

    async def confirm(self, tenant: str) -> None:
        """Confirm open erasures, oldest first. One that is not ready is tried again later."""
        page = await self._ledger.find(REMOVAL, tenant, "open", equals={}, limit=AT_ONCE)
        for head in page.items:
            if head.value is not None and self._store.breaker.state != "open":
                await self._confirm(tenant, head.id, head.value)

    async def _confirm(self, tenant: str, receipt: str, removal: Removal) -> None:
        erasure = await self._memories.erasure(tenant, receipt)
        if erasure is None:
            log.warning("nobody knows of an erasure that the index has followed", tenant=tenant, receipt=receipt)
        elif not await self._is_told_of(tenant, erasure):
            return
        else:
            await self._remove_remnants(tenant, erasure)
            await self._memories.confirm_erasure(tenant, receipt, removal.removed)
        await self._ledger.commit(
            system_write(tenant, REMOVAL, receipt, lambda heads, now: confirmed(heads, receipt, removal.removed))
        )
        self._ends.pop((tenant, receipt), None)

    async def _is_told_of(self, tenant: str, erasure: dict[str, Any]) -> bool:
        """Return whether the index has taken up all changes of an erasure whose memories are removed."""
        if WORKER not in erasure["awaited"] and erasure["status"] != "done":
            return False
        key = tenant, erasure["receipt"]
        end = await self._feed.end()
        if key not in self._ends or self._ends[key].identity != end.identity:
            self._ends[key] = end
        taken_up = [
            await self._feed.is_taken_up(tenant, namespace, self._ends[key])
            for namespace in namespaces_of(erasure["namespace"])
        ]
        return all(taken_up)

    async def _remove_remnants(self, tenant: str, erasure: dict[str, Any]) -> None:
        """Remove points that a crash or an interrupted call left. Raises if the store cannot tell."""
        for condition in _conditions(erasure):
            async for points in self._store.scroll_all(self._collection, Filter(tenant, [condition])):
                names = await self._remnants(tenant, points)
                await self._store.delete(self._collection, tenant, names)
                await asyncio.sleep(0)

    async def _remnants(self, tenant: str, points: Sequence[StoredPoint]) -> list[str]:
        named = {point.id: parsed(point.id) for point in points}
        items = await current_values(self._ledger, ITEM, tenant, {name.place for name in named.values()})
        return [id for id, name in named.items() if is_remnant(items, name)]


def _conditions(erasure: dict[str, Any]) -> list[Condition]:
    namespace, key = erasure["namespace"], erasure["key"]
    if key is not None:
        return [Equal("place", place_of(namespace, key))]
    return [Equal("below", name) for name in namespaces_of(namespace)]
