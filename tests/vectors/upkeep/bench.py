"""The parts of a worker on a real ledger and a real store, with sweeps of all tenants."""

import time
from typing import Any, Final

from hivemem_contracts.vectors.replies import SweepPage
from hivemem_runtime.circuit_breaker import CircuitBreaker
from hivemem_runtime.ledger.places import place_of
from hivemem_runtime.ledger.sqlite import SqliteLedger
from hivemem_runtime.tokens import estimated_tokens
from hivemem_testing.waiting import eventually
from hivemem_vectors.embedders.ports import GuardedEmbedder
from hivemem_vectors.own.decisions import physical
from hivemem_vectors.own.decisions import point_name as vector_point_name
from hivemem_vectors.own.entities import PROGRESS, VECTOR, within_collection
from hivemem_vectors.own.reactions import VectorSync
from hivemem_vectors.pipeline.decisions.changes import ItemVersion
from hivemem_vectors.pipeline.decisions.drafts import Chunker
from hivemem_vectors.pipeline.decisions.points import names_of
from hivemem_vectors.pipeline.endpoints.indexing import Indexer
from hivemem_vectors.pipeline.endpoints.stages import BROKEN_BY
from hivemem_vectors.pipeline.entities import ITEM, Item
from hivemem_vectors.stores.ports import Filter, Point, StoredPoint, VectorStore
from hivemem_vectors.upkeep.endpoints.item_sweep import ItemSweep
from hivemem_vectors.upkeep.endpoints.memory_sweep import MemorySweep
from hivemem_vectors.upkeep.endpoints.sweep import SweepEndpoint
from hivemem_vectors.upkeep.endpoints.vector_sweep import VectorSweep
from hivemem_vectors.upkeep.reactions.sweeper import LostCollections

from ..given.hive import Own
from ..tiny_embedder import DIMENSION, TinyEmbedder, row_of
from .cabinet import NAMESPACE, TENANT, Cabinet, Quiet

COLLECTION: Final = "memories"
LOOK_SECONDS: Final = 0.05


class Bench:
    def __init__(self, ledger: SqliteLedger, store: VectorStore, cabinet: Cabinet | None = None) -> None:
        self.ledger = ledger
        self.store = store
        self.cabinet = cabinet or Cabinet()
        self.embedder = TinyEmbedder()
        self.feed = Quiet()
        self.own = Own(ledger, store)
        self.breaker: CircuitBreaker = self.own.breaker
        self.collections: LostCollections = self.own.collections
        self.settling: VectorSync = self.own.settling
        self.guarded = self.own.guarded
        embedder_breaker = CircuitBreaker("the embedder", broken_by=BROKEN_BY)
        self.indexer = Indexer(
            ledger,
            self.guarded,
            GuardedEmbedder(self.embedder, embedder_breaker),
            embedder_breaker,
            Chunker(estimated_tokens),
            self.cabinet,
            collection=COLLECTION,
        )
        self.swept_items = ItemSweep(
            ledger,
            self.guarded,
            self.indexer,
            collection=COLLECTION,
            look_seconds=LOOK_SECONDS,
        )
        self.sweeping = SweepEndpoint(
            MemorySweep(ledger, self.cabinet, self.indexer, self.feed, look_seconds=LOOK_SECONDS),
            self.swept_items,
            VectorSweep(ledger, self.guarded, self.settling),
        )

    async def remember(self, *keys: str, words: int = 3) -> None:
        """Write and index memories."""
        await self.tell(
            *(self.cabinet.put(key, " ".join([f"{key}{number}" for number in range(words)])) for key in keys)
        )

    async def tell(self, *told: ItemVersion) -> None:
        await self.indexer.take_up(told)

    async def sweep(
        self, *, dry_run: bool = False, tenant: str = TENANT, phase: str | None = None
    ) -> tuple[int, int, int]:
        """Sweep everything, or from a phase on; return the numbers of checked, missing and left-over points."""
        whole = [0, 0, 0]
        cursor = None if phase is None else self.sweeping.begin_at(tenant, phase)
        for page in await self.parts(dry_run=dry_run, tenant=tenant, cursor=cursor):
            for at, count in enumerate((page.checked, page.missing, page.left_over)):
                whole[at] += count
        return whole[0], whole[1], whole[2]

    async def parts(self, *, dry_run: bool = False, tenant: str = TENANT, cursor: str | None = None) -> list[SweepPage]:
        found: list[SweepPage] = []
        while True:
            found.append(await self.sweeping.part(tenant, cursor, dry_run))
            cursor = found[-1].cursor
            if cursor is None:
                return found

    async def item(self, key: str, namespace: str = NAMESPACE) -> Item | None:
        head = await self.ledger.head(ITEM, TENANT, place_of(namespace, key))
        return None if head is None else head.value

    async def points(self, collection: str = COLLECTION, tenant: str = TENANT) -> dict[str, StoredPoint]:
        found: dict[str, StoredPoint] = {}
        after: str | None = None
        while True:
            page = await self.store.scroll(collection, Filter(tenant), after=after)
            found |= {point.id: point for point in page.points}
            after = page.next
            if after is None:
                return found

    async def add(self, *names: str, collection: str = COLLECTION, dimension: int = DIMENSION, **values: Any) -> None:
        """Add points by hand."""
        row = row_of("by hand")[:dimension]
        await self.store.upsert(
            collection, [Point(TENANT, name, row, None, {"version": 1, **values}) for name in names]
        )

    async def drop(self, *names: str, collection: str = COLLECTION) -> None:
        await self.store.delete(collection, TENANT, names)

    async def check(self, *keys: str) -> None:
        """Check that exactly these memories are found in their present form, and that the store has exactly their
        points."""
        page = await self.ledger.find(ITEM, TENANT, "all", equals={}, limit=1_000)
        living = {head.id: head.value for head in page.items if head.value is not None and not head.value.gone}
        assert sorted(living) == sorted(place_of(NAMESPACE, key) for key in keys)
        names: set[str] = set()
        for place, item in living.items():
            assert (item.state, item.heard, item.indexed) == ("synced", item.heard, item.heard), (place, item)
            assert item.heard == self.cabinet.memories[place]["version"]
            names.update(names_of(place, item.heard, item.chunks))
        assert set(await self.points()) == names

    async def check_points_of(self, key: str, version: int = 1) -> None:
        assert names_of(place_of(NAMESPACE, key), version, 1)[0] in await self.points()

    async def all_settled(self) -> None:
        async def done() -> bool:
            return await self.ledger.count(PROGRESS, TENANT, "waiting", equals={}) == 0

        await eventually(done, "all vectors are in the index")

    async def check_vectors(self, collection: str, dimension: int) -> None:
        """Check that the store has exactly the points of a collection's living vectors. Its dimension is unique."""
        low, high = within_collection(collection)
        page = await self.ledger.find(VECTOR, TENANT, "living", equals={}, low=low, high=high, limit=1_000)
        names = {vector_point_name(head.id, head.version) for head in page.items}
        assert set(await self.points(physical(dimension))) == names


def now() -> int:
    return time.time_ns() // 1_000
