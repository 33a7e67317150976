"""The vector store on a Qdrant server."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, Final
from urllib.parse import urlsplit

import numpy as np
from qdrant_client import AsyncQdrantClient, grpc, models

from hivemem_contracts.errors import AlreadyExists, NotFound
from hivemem_vectors.stores.arguments import check_same
from hivemem_vectors.stores.payloads import DENSE, ID, SPARSE, payload_of, point_key, stored_point
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
from hivemem_vectors.stores.qdrant.server import (
    Quantization,
    create,
    create_indexes,
    nearest_to,
    points_query,
    qdrant_filter,
    query_batch,
    schema_of,
    sharing_terms_with,
    translated,
    unavailable,
)

TIMEOUT_SECONDS: Final = 10
CALLS_AT_ONCE: Final = 64
UPSERTS_AT_ONCE: Final = 4
FLOATS_PER_REQUEST: Final = 50_000
"""The size of the vectors in one upsert. A larger request would take the event loop for too long."""

SEARCH_CANDIDATES: Final = 128
OVERSAMPLING: Final = 2.0
GRPC_PORT: Final = 6334
_EXACTLY: Final = models.SearchParams(exact=True)

# A server that is back is found again within a second.
_RECONNECTING: Final = {
    "grpc.initial_reconnect_backoff_ms": 100,
    "grpc.min_reconnect_backoff_ms": 100,
    "grpc.max_reconnect_backoff_ms": 1_000,
}


class QdrantVectors:
    """`url` is that of the server's gRPC port: `http://host:6334`. For one event loop."""

    words = Ability(True)

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
            # Otherwise the client searches every point for text to embed, number by number.
            cloud_inference=True,
            check_compatibility=False,  # it would ask over REST, and block
        )
        self._quantization: Quantization = quantization
        self._calls = asyncio.Semaphore(CALLS_AT_ONCE)
        self._upserts = asyncio.Semaphore(UPSERTS_AT_ONCE)
        self._closed = False

    async def check(self) -> None:
        async with self._call():
            await self._client.get_collections()

    async def close(self) -> None:
        if not self._closed:
            self._closed = True
            await self._client.close()

    async def ensure_collection(self, collection: str, schema: Schema) -> None:
        try:
            found = await self.schema(collection)
        except NotFound:
            found = await self._created(collection, schema)
        check_same(collection, found, schema)
        async with self._call(collection):
            info = await self._client.get_collection(collection)
            await create_indexes(self._client, collection, info, schema)

    async def schema(self, collection: str) -> Schema:
        async with self._call(collection):
            return schema_of(collection, await self._client.get_collection(collection))

    async def drop_collection(self, collection: str) -> None:
        async with self._call(collection):
            await self._client.delete_collection(collection)

    async def upsert(self, collection: str, points: Sequence[Point]) -> None:
        step = max(1, FLOATS_PER_REQUEST // len(points[0].dense)) if points else 1
        for start in range(0, len(points), step):
            async with self._upserts, self._call(collection):
                structs = [_struct(point) for point in points[start : start + step]]
                await self._client.upsert(collection, structs, wait=True)

    async def nearest(self, collection: str, query: Nearest) -> list[Hit]:
        nearest, payload = nearest_to(query.dense), _payload(query.values)
        where = qdrant_filter(query.where)
        queries = [points_query(DENSE, nearest, where, query.limit, self._approximate, payload=payload)]
        if among := query.among:
            # Points that were found behind the filter need not pass it again.
            where = qdrant_filter(None, among)
            queries.append(points_query(DENSE, nearest, where, len(among), _EXACTLY, payload=payload))
        return _flat(await self._search(collection, queries))

    async def by_words(self, collection: str, query: ByWords) -> list[Hit]:
        sharing = sharing_terms_with(query.sparse.indices, query.sparse.values)
        where, payload = qdrant_filter(query.where), not query.keys_only and _payload(query.values)
        queries = [points_query(SPARSE, sharing, where, query.limit, self._approximate, payload=payload)]
        return _flat(await self._search(collection, queries))

    async def best_by_word(self, collection: str, where: Filter, terms: Sequence[int]) -> list[float]:
        passing = qdrant_filter(where)
        queries = [
            points_query(SPARSE, sharing_terms_with([term], [1.0]), passing, 1, self._approximate, payload=False)
            for term in terms
        ]
        answers = await self._search(collection, queries)
        return [hits[0].score if hits else 0.0 for hits in answers]

    async def delete(self, collection: str, tenant: str, ids: Sequence[str]) -> None:
        keys = list[models.ExtendedPointId]([point_key(tenant, id) for id in ids])
        async with self._call(collection):
            await self._client.delete(collection, models.PointIdsList(points=keys), wait=True)

    async def delete_where(self, collection: str, where: Filter) -> None:
        async with self._call(collection):
            selector = models.FilterSelector(filter=qdrant_filter(where))
            await self._client.delete(collection, selector, wait=True)

    async def scroll(
        self, collection: str, where: Filter | None = None, *, after: str | None = None, limit: int = POINTS_PER_CALL
    ) -> PointPage:
        async with self._call(collection):
            records, following = await self._client.scroll(
                collection, scroll_filter=qdrant_filter(where), limit=limit, offset=after, with_payload=True
            )
        points = [stored_point(record.payload or {}) for record in records]
        return PointPage(points, None if following is None else str(following))

    async def count(self, collection: str, where: Filter | None = None) -> int:
        async with self._call(collection):
            return (await self._client.count(collection, qdrant_filter(where), exact=True)).count

    async def _created(self, collection: str, schema: Schema) -> Schema:
        with suppress(AlreadyExists):  # somebody else was faster, and may have made it for something else
            async with self._call(collection):
                await create(self._client, collection, schema, self._quantization)
        return await self.schema(collection)

    async def _search(self, collection: str, queries: Sequence[grpc.QueryPoints]) -> list[list[Hit]]:
        async with self._call(collection):
            return await query_batch(self._client, collection, queries, TIMEOUT_SECONDS)

    @property
    def _approximate(self) -> models.SearchParams:
        rescored = None
        if self._quantization == "scalar":
            rescored = models.QuantizationSearchParams(rescore=True, oversampling=OVERSAMPLING)
        return models.SearchParams(hnsw_ef=SEARCH_CANDIDATES, quantization=rescored)

    @asynccontextmanager
    async def _call(self, collection: str = "") -> AsyncGenerator[None]:
        async with self._calls:
            if self._closed:
                raise unavailable("the vector store is closed")
            with translated(collection):
                yield


def _payload(values: Sequence[str] | None) -> bool | list[str]:
    return True if values is None else [ID, *values]


def _flat(answers: Sequence[Sequence[Hit]]) -> list[Hit]:
    return [hit for hits in answers for hit in hits]


def _struct(point: Point) -> models.PointStruct:
    vectors: dict[str, Any] = {DENSE: np.asarray(point.dense, np.float32).tolist()}
    if point.sparse is not None and len(point.sparse.indices):
        vectors[SPARSE] = models.SparseVector.model_construct(
            indices=list(point.sparse.indices), values=list(point.sparse.values)
        )
    # The point was checked: the model would look at each number again, on the loop.
    return models.PointStruct.model_construct(
        id=point_key(point.tenant, point.id), vector=vectors, payload=payload_of(point)
    )
