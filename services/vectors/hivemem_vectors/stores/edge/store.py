"""The vector store in files of this machine."""

import asyncio
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from hivemem_vectors.stores.arguments import (
    check_collection,
    check_count,
    check_cursor,
    check_dense,
    check_filter,
    check_limit,
    check_names,
    check_points,
    check_same,
    check_schema,
    check_sparse,
    point_id,
)
from hivemem_vectors.stores.edge import generations
from hivemem_vectors.stores.edge.frames import filter_fields, points_frame, query_frame
from hivemem_vectors.stores.edge.process import EngineProcess
from hivemem_vectors.stores.ports import (
    POINTS_PER_CALL,
    Dense,
    Filter,
    Hit,
    Page,
    Point,
    Schema,
    Sparse,
    StoredPoint,
    Vector,
)
from hivemem_vectors.stores.sides import Ask, Found, search_sides

CALLS_AT_ONCE: Final = 64
UPSERTS_AT_ONCE: Final = 2
FLOATS_PER_FRAME: Final = 50_000
"""Of the vectors in one upsert: a search that comes meanwhile waits for no more than that."""

OPTIMIZE_AFTER: Final = 10_000


class EdgeVectors:
    """Qdrant's engine in a process of its own, which begins with the first call, ends with this one, and is started
    again where it fails. `folder` is for one store at a time; for one event loop.

    After `optimize_after` changes, or more in a large collection, the graphs are built anew in the background, once it
    is quiet.
    """

    def __init__(self, folder: Path, *, optimize_after: int = OPTIMIZE_AFTER) -> None:
        self._folder = folder
        self._engine = EngineProcess(folder, optimize_after)
        self._calls = asyncio.Semaphore(CALLS_AT_ONCE)
        self._upserts = asyncio.Semaphore(UPSERTS_AT_ONCE)
        self._schemas: dict[str, Schema] = {}

    @property
    def pid(self) -> int | None:
        """Of the engine's process, while it runs."""
        return self._engine.pid

    def refuse_other(self, collection: str, schema: Schema) -> None:
        """Raise `InvalidRequest` where the files are those of a collection that was made for another dimension or
        model: before the engine has started, which `ensure_collection` waits for."""
        check_schema(collection, schema)
        if generations.exists(self._folder, collection):
            check_same(collection, Schema(*generations.about(self._folder / collection)), schema)

    async def check(self) -> None:
        async with self._calls:
            await self._engine.call({"op": "check", "collection": ""})

    async def close(self) -> None:
        await self._engine.close()

    async def ensure_collection(self, collection: str, schema: Schema) -> None:
        check_schema(collection, schema)
        fields = {"dimension": schema.dimension, "model": schema.model, "fields": dict(schema.fields)}
        await self._call("ensure", collection, schema=fields)
        self._schemas.pop(collection, None)

    async def schema(self, collection: str) -> Schema:
        check_collection(collection)
        found = await self._call("schema", collection)
        schema = Schema(found["dimension"], found["model"], found["fields"])
        self._schemas[collection] = schema
        return schema

    async def optimized_points(self, collection: str) -> int:
        """How many points the collection had when its graphs were built; 0 before that."""
        check_collection(collection)
        found = await self._call("schema", collection)
        return int(found["optimized"])

    async def drop_collection(self, collection: str) -> None:
        check_collection(collection)
        self._schemas.pop(collection, None)
        await self._call("drop", collection)

    async def upsert(self, collection: str, points: Sequence[Point]) -> None:
        dimension = (await self._known_schema(collection)).dimension
        check_points(dimension, points)
        step = max(1, FLOATS_PER_FRAME // dimension)
        for start in range(0, len(points), step):
            async with self._upserts:
                fields, data = points_frame(points[start : start + step])
                await self._call("upsert", collection, data, **fields)

    async def search(
        self,
        collection: str,
        where: Filter,
        *,
        dense: Dense = None,
        sparse: Sparse | None = None,
        limit: int,
        exact: bool = False,
        values: Sequence[str] | None = None,
    ) -> list[Hit]:
        check_limit(limit)
        check_filter(where)
        check_names(values)
        if sparse is not None:
            check_sparse(sparse)
        fields = {"where": filter_fields(where), "exact": exact, "values": values}
        return await search_sides(partial(self._ask, collection, fields, sparse), dense, sparse, limit)

    async def delete(self, collection: str, tenant: str, ids: Sequence[str]) -> None:
        check_collection(collection)
        check_count("ids", len(ids))
        if not ids:
            return
        await self._call("delete", collection, numbers=[str(point_id(tenant, id)) for id in ids])

    async def delete_where(self, collection: str, where: Filter) -> None:
        check_collection(collection)
        check_filter(where)
        await self._call("delete_where", collection, where=filter_fields(where))

    async def scroll(
        self, collection: str, where: Filter | None = None, *, after: str | None = None, limit: int = POINTS_PER_CALL
    ) -> Page:
        check_collection(collection)
        check_limit(limit)
        check_cursor(after)
        if where is not None:
            check_filter(where)
        found = await self._call("scroll", collection, where=filter_fields(where), after=after, limit=limit)
        return Page([StoredPoint(*point) for point in found["points"]], found["next"])

    async def count(self, collection: str, where: Filter | None = None) -> int:
        check_collection(collection)
        if where is not None:
            check_filter(where)
        return int(await self._call("count", collection, where=filter_fields(where)))

    async def _ask(
        self,
        collection: str,
        fields: dict[str, Any],
        sparse: Sparse | None,
        asks: Sequence[Ask],
        dense: Vector | None,
    ) -> list[list[Found]]:
        schema = await self._known_schema(collection)
        if dense is not None:
            check_dense(schema.dimension, dense)
        queries, data = query_frame(asks, sparse, dense)
        answers = await self._call("search", collection, data, **fields, **queries)
        return [[Found(*found) for found in answer] for answer in answers]

    async def _known_schema(self, collection: str) -> Schema:
        """Nobody else has the folder: what was read once stays so until the collection is dropped."""
        check_collection(collection)
        return self._schemas.get(collection) or await self.schema(collection)

    async def _call(self, op: str, collection: str, data: bytes = b"", **fields: Any) -> Any:
        async with self._calls:
            return await self._engine.call({"op": op, "collection": collection, **fields}, data)
