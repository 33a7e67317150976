"""The vector store on a Qdrant server."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any, Final
from urllib.parse import urlsplit

import numpy as np
from qdrant_client import AsyncQdrantClient, grpc, models

from hivemem_contracts.errors import AlreadyExists, InvalidRequest, NotFound
from hivemem_vectors.stores.arguments import (
    ID,
    TENANT,
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
from hivemem_vectors.stores.ports import POINTS_PER_CALL, Dense, Filter, Hit, Page, Point, Schema, Sparse, Vector
from hivemem_vectors.stores.qdrant.queries import (
    nearest_to,
    points_query,
    qdrant_filter,
    query_batch,
    sharing_terms_with,
)
from hivemem_vectors.stores.qdrant.server import (
    Quantization,
    create,
    create_indexes,
    schema_of,
    translated,
    unavailable,
)
from hivemem_vectors.stores.sides import DENSE, SPARSE, Ask, Found, search_sides, stored_point

TIMEOUT_SECONDS: Final = 10
CALLS_AT_ONCE: Final = 64
UPSERTS_AT_ONCE: Final = 4
FLOATS_PER_REQUEST: Final = 50_000
"""Of the vectors in one upsert: building a request of more would hold up the loop."""

SEARCH_CANDIDATES: Final = 128
OVERSAMPLING: Final = 2.0
GRPC_PORT: Final = 6334

# A server that is back is found again within a second.
_RECONNECTING: Final = {
    "grpc.initial_reconnect_backoff_ms": 100,
    "grpc.min_reconnect_backoff_ms": 100,
    "grpc.max_reconnect_backoff_ms": 1_000,
}


class QdrantVectors:
    """`url` is that of the server's gRPC port: `http://host:6334`. For one event loop."""

    def __init__(self, url: str, *, api_key: str | None = None, quantization: Quantization = "none") -> None:
        parts = urlsplit(url)
        self._client = AsyncQdrantClient(
            host=parts.hostname,
            grpc_port=parts.port or GRPC_PORT,
            https=parts.scheme == "https",
            api_key=api_key,
            prefer_grpc=True,
            timeout=TIMEOUT_SECONDS,
            grpc_options=dict(_RECONNECTING),
            # Else the client would go through each number of each point for text to embed; there is none.
            cloud_inference=True,
            check_compatibility=False,  # it would ask over REST, and block
        )
        self._quantization: Quantization = quantization
        self._calls = asyncio.Semaphore(CALLS_AT_ONCE)
        self._upserts = asyncio.Semaphore(UPSERTS_AT_ONCE)
        self._schemas: dict[str, Schema] = {}
        self._closed = False

    async def check(self) -> None:
        async with self._call():
            await self._client.get_collections()

    async def close(self) -> None:
        if not self._closed:
            self._closed = True
            await self._client.close()

    async def ensure_collection(self, collection: str, schema: Schema) -> None:
        check_schema(collection, schema)
        try:
            found = await self._read_schema(collection)
        except NotFound:
            found = await self._created(collection, schema)
        check_same(collection, found, schema)
        async with self._call(collection):
            info = await self._client.get_collection(collection)
            await create_indexes(self._client, collection, info, schema)
        self._schemas.pop(collection, None)

    async def schema(self, collection: str) -> Schema:
        check_collection(collection)
        return await self._read_schema(collection)

    async def drop_collection(self, collection: str) -> None:
        check_collection(collection)
        self._schemas.pop(collection, None)
        async with self._call(collection):
            await self._client.delete_collection(collection)

    async def upsert(self, collection: str, points: Sequence[Point]) -> None:
        dimension = (await self._known_schema(collection)).dimension
        check_points(dimension, points)
        step = max(1, FLOATS_PER_REQUEST // dimension)
        for start in range(0, len(points), step):
            async with self._upserts, self._call(collection):
                structs = [_struct(point) for point in points[start : start + step]]
                await self._client.upsert(collection, structs, wait=True)

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
        payload: bool | list[str] = True if values is None else [ID, *values]
        ask = partial(self._ask, collection, where, sparse, exact, payload)
        return await search_sides(ask, dense, sparse, limit)

    async def delete(self, collection: str, tenant: str, ids: Sequence[str]) -> None:
        check_collection(collection)
        check_count("ids", len(ids))
        if not ids:
            return
        numbers = list[models.ExtendedPointId]([str(point_id(tenant, id)) for id in ids])
        async with self._call(collection):
            await self._client.delete(collection, models.PointIdsList(points=numbers), wait=True)

    async def delete_where(self, collection: str, where: Filter) -> None:
        check_collection(collection)
        check_filter(where)
        async with self._call(collection):
            selector = models.FilterSelector(filter=qdrant_filter(where))
            await self._client.delete(collection, selector, wait=True)

    async def scroll(
        self, collection: str, where: Filter | None = None, *, after: str | None = None, limit: int = POINTS_PER_CALL
    ) -> Page:
        check_collection(collection)
        check_limit(limit)
        check_cursor(after)
        if where is not None:
            check_filter(where)
        async with self._call(collection):
            records, following = await self._client.scroll(
                collection, scroll_filter=qdrant_filter(where), limit=limit, offset=after, with_payload=True
            )
        points = [stored_point(record.payload or {}) for record in records]
        return Page(points, None if following is None else str(following))

    async def count(self, collection: str, where: Filter | None = None) -> int:
        check_collection(collection)
        if where is not None:
            check_filter(where)
        async with self._call(collection):
            return (await self._client.count(collection, qdrant_filter(where), exact=True)).count

    async def _created(self, collection: str, schema: Schema) -> Schema:
        with suppress(AlreadyExists):  # somebody else was faster, and may have made it for something else
            async with self._call(collection):
                await create(self._client, collection, schema, self._quantization)
        return await self._read_schema(collection)

    async def _read_schema(self, collection: str) -> Schema:
        async with self._call(collection):
            return schema_of(collection, await self._client.get_collection(collection))

    async def _known_schema(self, collection: str) -> Schema:
        """As it was when it was read first; where another process has made it anew, the server refuses."""
        check_collection(collection)
        if (known := self._schemas.get(collection)) is None:
            known = self._schemas[collection] = await self._read_schema(collection)
        return known

    async def _ask(
        self,
        collection: str,
        where: Filter,
        sparse: Sparse | None,
        exact: bool,
        payload: bool | Sequence[str],
        asks: Sequence[Ask],
        dense: Vector | None,
    ) -> list[list[Found]]:
        schema = await self._known_schema(collection)
        if dense is not None:
            check_dense(schema.dimension, dense)
        requests = [
            points_query(
                ask.side,
                self._nearest(ask, sparse, dense),
                # What was found below the filter need not pass it again.
                qdrant_filter(None if ask.among else where, ask.among),
                ask.limit,
                _params(exact or bool(ask.among), self._quantization),
                payload=False if ask.bare else payload,
            )
            for ask in asks
        ]
        async with self._call(collection):
            return await query_batch(self._client, collection, requests, TIMEOUT_SECONDS)

    @staticmethod
    def _nearest(ask: Ask, sparse: Sparse | None, dense: Vector | None) -> grpc.Query:
        if ask.side == DENSE:
            assert dense is not None, "it has arrived"
            return nearest_to(dense)
        assert sparse is not None, "it is asked for"
        return sharing_terms_with(sparse)

    @asynccontextmanager
    async def _call(self, collection: str = "") -> AsyncGenerator[None]:
        async with self._calls:
            if self._closed:
                raise unavailable("the vector store is closed")
            try:
                with translated(collection):
                    yield
            except (NotFound, InvalidRequest):
                self._schemas.pop(collection, None)
                raise


def _params(exact: bool, quantization: Quantization) -> models.SearchParams:
    if exact:
        return models.SearchParams(exact=True)
    rescored = models.QuantizationSearchParams(rescore=True, oversampling=OVERSAMPLING)
    return models.SearchParams(hnsw_ef=SEARCH_CANDIDATES, quantization=rescored if quantization == "scalar" else None)


def _struct(point: Point) -> models.PointStruct:
    vectors: dict[str, Any] = {DENSE: np.asarray(point.dense, np.float32).tolist()}
    if point.sparse is not None and len(point.sparse.indices):
        vectors[SPARSE] = models.SparseVector.model_construct(
            indices=list(point.sparse.indices), values=list(point.sparse.values)
        )
    payload = {**point.values, TENANT: point.tenant, ID: point.id}
    # The point was checked: the model would look at each number again, on the loop.
    return models.PointStruct.model_construct(id=str(point_id(point.tenant, point.id)), vector=vectors, payload=payload)
