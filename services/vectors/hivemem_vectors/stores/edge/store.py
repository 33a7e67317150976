"""The vector store in files of this machine."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from hivemem_vectors.stores.arguments import check_same, check_schema
from hivemem_vectors.stores.edge import generations
from hivemem_vectors.stores.edge.frames import points_frame
from hivemem_vectors.stores.edge.process import EngineProcess
from hivemem_vectors.stores.payloads import DENSE, SPARSE, hit_of, point_key, stored_point
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
)

CALLS_AT_ONCE: Final = 64
UPSERTS_AT_ONCE: Final = 2
FLOATS_PER_FRAME: Final = 50_000
"""The size of the vectors in one upsert. A search that comes meanwhile waits for no more than one of them."""

OPTIMIZE_AFTER: Final = 10_000


class EdgeVectors:
    """Qdrant's engine in a process of its own, which starts with the first call and again after it failed.

    `folder` belongs to one store at a time. The graphs are built anew in the background after `optimize_after`
    changes, or more in a large collection, once no more changes come.
    """

    words = Ability(True)

    def __init__(self, folder: Path, *, optimize_after: int = OPTIMIZE_AFTER) -> None:
        self._folder = folder
        self._engine = EngineProcess(folder, optimize_after)
        self._calls = asyncio.Semaphore(CALLS_AT_ONCE)
        self._upserts = asyncio.Semaphore(UPSERTS_AT_ONCE)

    @property
    def pid(self) -> int | None:
        """The process id of the engine, while it runs."""
        return self._engine.pid

    def refuse_other(self, collection: str, schema: Schema) -> None:
        """Raise `InvalidRequest` if the files belong to a collection of another dimension or model.

        This needs no engine, while `ensure_collection` waits until it has started."""
        check_schema(collection, schema)
        if generations.exists(self._folder, collection):
            check_same(collection, Schema(*generations.about(self._folder / collection)), schema)

    async def check(self) -> None:
        await self._call("check", "")

    async def close(self) -> None:
        await self._engine.close()

    async def ensure_collection(self, collection: str, schema: Schema) -> None:
        await self._call("ensure", collection, schema=schema)

    async def schema(self, collection: str) -> Schema:
        found = await self._call("schema", collection)
        return Schema(found["dimension"], found["model"], found["fields"])

    async def optimized_points(self, collection: str) -> int:
        """Return how many points the collection had when its graphs were built; 0 before that."""
        found = await self._call("schema", collection)
        return int(found["optimized"])

    async def drop_collection(self, collection: str) -> None:
        await self._call("drop", collection)

    async def upsert(self, collection: str, points: Sequence[Point]) -> None:
        step = max(1, FLOATS_PER_FRAME // len(points[0].dense)) if points else 1
        for start in range(0, len(points), step):
            async with self._upserts:
                fields, data = points_frame(points[start : start + step])
                await self._call("upsert", collection, data, **fields)

    async def nearest(self, collection: str, query: Nearest) -> list[Hit]:
        queries: list[dict[str, Any]] = [{"side": DENSE, "limit": query.limit, "among": ()}]
        if query.among:
            queries.append({"side": DENSE, "limit": len(query.among), "among": query.among})
        return await self._search(collection, query, queries, np.asarray(query.dense, np.float32).tobytes())

    async def by_words(self, collection: str, query: ByWords) -> list[Hit]:
        terms = {"indices": query.sparse.indices, "values": query.sparse.values}
        queries = [{"side": SPARSE, "limit": query.limit, "among": (), "bare": query.keys_only, "terms": terms}]
        return await self._search(collection, query, queries)

    async def best_by_word(self, collection: str, where: Filter, terms: Sequence[int]) -> list[float]:
        queries = [
            {"side": SPARSE, "limit": 1, "among": (), "bare": True, "terms": {"indices": [term], "values": [1.0]}}
            for term in terms
        ]
        answers = await self._call("search", collection, where=where, values=None, queries=queries)
        return [found[0][1] if found else 0.0 for found in answers]

    async def delete(self, collection: str, tenant: str, ids: Sequence[str]) -> None:
        await self._call("delete", collection, numbers=[point_key(tenant, id) for id in ids])

    async def delete_where(self, collection: str, where: Filter) -> None:
        await self._call("delete_where", collection, where=where)

    async def scroll(
        self, collection: str, where: Filter | None = None, *, after: str | None = None, limit: int = POINTS_PER_CALL
    ) -> PointPage:
        found = await self._call("scroll", collection, where=where, after=after, limit=limit)
        return PointPage([stored_point(payload) for payload in found["payloads"]], found["next"])

    async def count(self, collection: str, where: Filter | None = None) -> int:
        return int(await self._call("count", collection, where=where))

    async def _search(
        self,
        collection: str,
        query: Nearest | ByWords,
        queries: Sequence[dict[str, Any]],
        data: bytes = b"",
    ) -> list[Hit]:
        fields = {"where": query.where, "values": query.values, "queries": queries}
        answers = await self._call("search", collection, data, **fields)
        return [hit_of(*found) for answer in answers for found in answer]

    async def _call(self, op: str, collection: str, data: bytes = b"", **fields: Any) -> Any:
        async with self._calls:
            return await self._engine.call({"op": op, "collection": collection, **fields}, data)
