"""A proxy of a vector store that is unavailable or slow when a test says so."""

import asyncio
from collections.abc import Sequence

from hivemem_contracts.errors import Unavailable
from hivemem_vectors.stores.ports import (
    POINTS_PER_CALL,
    Ability,
    ByWords,
    Filter,
    Hit,
    Nearest,
    Point,
    PointPage,
    Schema,
    VectorStore,
)


class WaywardStore:
    def __init__(self, store: VectorStore) -> None:
        self.store = store
        self.is_away = False
        self.gate = asyncio.Event()
        """While it is closed, calls wait."""
        self.gate.set()
        self.calls: list[str] = []
        self.upserted = 0

    async def _go(self, call: str) -> VectorStore:
        self.calls.append(call)
        if self.is_away:
            raise Unavailable("the store is away", retry_after_ms=1)
        await self.gate.wait()
        return self.store

    async def check(self) -> None:
        await (await self._go("check")).check()

    async def close(self) -> None:
        await self.store.close()

    async def ensure_collection(self, collection: str, schema: Schema) -> None:
        await (await self._go("ensure_collection")).ensure_collection(collection, schema)

    async def schema(self, collection: str) -> Schema:
        return await (await self._go("schema")).schema(collection)

    async def drop_collection(self, collection: str) -> None:
        await (await self._go("drop_collection")).drop_collection(collection)

    async def upsert(self, collection: str, points: Sequence[Point]) -> None:
        store = await self._go("upsert")
        self.upserted += len(points)
        await store.upsert(collection, points)

    @property
    def words(self) -> Ability:
        return self.store.words

    async def nearest(self, collection: str, query: Nearest) -> list[Hit]:
        store = await self._go("nearest")
        return await store.nearest(collection, query)

    async def by_words(self, collection: str, query: ByWords) -> list[Hit]:
        store = await self._go("by_words")
        return await store.by_words(collection, query)

    async def best_by_word(self, collection: str, where: Filter, terms: Sequence[int]) -> list[float]:
        store = await self._go("best_by_word")
        return await store.best_by_word(collection, where, terms)

    async def delete(self, collection: str, tenant: str, ids: Sequence[str]) -> None:
        await (await self._go("delete")).delete(collection, tenant, ids)

    async def delete_where(self, collection: str, where: Filter) -> None:
        await (await self._go("delete_where")).delete_where(collection, where)

    async def scroll(
        self, collection: str, where: Filter | None = None, *, after: str | None = None, limit: int = POINTS_PER_CALL
    ) -> PointPage:
        return await (await self._go("scroll")).scroll(collection, where, after=after, limit=limit)

    async def count(self, collection: str, where: Filter | None = None) -> int:
        return await (await self._go("count")).count(collection, where)
