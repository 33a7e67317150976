"""The collection of all items as a recall asks it: within a time, behind the store's breaker, made again if lost."""

import asyncio
from collections.abc import Awaitable, Generator
from contextlib import contextmanager, suppress
from typing import Final

from hivemem_contracts.errors import HiveError, NotFound, Unavailable
from hivemem_runtime.circuit_breaker import Breaker
from hivemem_vectors.embedders.ports import Embedder
from hivemem_vectors.pipeline.decisions.keywords import SparseEmbedding
from hivemem_vectors.pipeline.decisions.points import FIELDS
from hivemem_vectors.recall.decisions.ranking import SCORED
from hivemem_vectors.stores.ports import Condition, Filter, Hit, Schema, Vector, VectorStore
from hivemem_vectors.upkeep.endpoints.collections import Collections

LONGEST_SECONDS: Final = 3.0
"""Longer is as good as not at all: what the mirror says comes sooner."""

COUNT_SECONDS: Final = 5.0
"""For so long a tenant's points are taken to be as many as they were: only the order of magnitude matters."""

TENANTS_COUNTED: Final = 10_000
RETRY_AFTER_MS: Final = 1_000


class Index:
    def __init__(
        self,
        store: VectorStore,
        breaker: Breaker,
        collections: Collections,
        embedder: Embedder,
        name: str,
    ) -> None:
        self._store = store
        self._breaker = breaker
        self._collections = collections
        self._schema = Schema(embedder.dimension, embedder.model, FIELDS)
        self._name = name
        self._counts: dict[str, tuple[float, int]] = {}
        self._counting: dict[str, asyncio.Task[None]] = {}

    async def search(
        self,
        tenant: str,
        conditions: list[Condition],
        vector: Awaitable[Vector | None],
        words: SparseEmbedding,
        limit: int,
    ) -> list[Hit]:
        """By the vector, and by the words where there are any, which are searched while it is under way. Raises what
        the store does, and `Unavailable` for one that takes too long, or is not filled again yet; `NotFound` where the
        collection was lost, which whoever fills it has heard of by then."""
        sparse = words if words.indices else None
        if await self._collections.is_incomplete(tenant, self._name):
            raise Unavailable("it was lost, and is filled again", retry_after_ms=RETRY_AFTER_MS)
        where = Filter(tenant, conditions)
        try:
            with self._breaker.guard(), _timely():
                async with asyncio.timeout(LONGEST_SECONDS):
                    return await self._store.search(
                        self._name, where, dense=vector, sparse=sparse, limit=limit, values=SCORED
                    )
        except NotFound:
            self._collections.forget(self._name)
            with suppress(HiveError):
                await self._collections.ensure(self._name, self._schema)
            raise

    def begin_counting(self, tenant: str) -> None:
        """Beside whatever else is going on; unless that is done or under way."""
        counted = self._counts.get(tenant)
        is_fresh = counted is not None and asyncio.get_running_loop().time() - counted[0] < COUNT_SECONDS
        if not is_fresh and tenant not in self._counting and self._breaker.state == "closed":
            task = self._counting[tenant] = asyncio.create_task(self._count(tenant))
            task.add_done_callback(lambda _: self._counting.pop(tenant))

    async def count(self, tenant: str) -> int:
        """How many points a tenant has, as of a few seconds ago; of a store that does not say, as it said last."""
        task = self._counting.get(tenant)
        if task is not None:
            await asyncio.wait([task])  # others may wait for it as well: it goes on where this one is cancelled
        counted = self._counts.get(tenant)
        return 0 if counted is None else counted[1]

    async def _count(self, tenant: str) -> None:
        try:
            async with asyncio.timeout(LONGEST_SECONDS):
                count = await self._store.count(self._name, Filter(tenant))
        except (HiveError, TimeoutError):
            return
        self._counts.pop(tenant, None)
        self._counts[tenant] = (asyncio.get_running_loop().time(), count)
        while len(self._counts) > TENANTS_COUNTED:
            del self._counts[next(iter(self._counts))]


@contextmanager
def _timely() -> Generator[None]:
    try:
        yield
    except TimeoutError as error:
        raise Unavailable("the vector store takes too long", retry_after_ms=RETRY_AFTER_MS) from error
