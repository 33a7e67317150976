"""The terms of the port in those of the server, and back: collections, errors, filters and queries.

Queries are built as gRPC messages, because the client's own way copies each question number by number, and takes each
value of each answer through JSON, which takes longer than the search itself.
"""

from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from typing import Any, Final, Literal, TypeAlias

import grpc
import numpy as np
from grpc.aio import AioRpcError
from qdrant_client import AsyncQdrantClient, models
from qdrant_client import grpc as messages
from qdrant_client.common.client_exceptions import ResourceExhaustedResponse
from qdrant_client.conversions.conversion import RestToGrpc

from hivemem_contracts.errors import AlreadyExists, HiveError, Internal, InvalidRequest, NotFound, Unavailable
from hivemem_vectors.stores.payloads import DENSE, SPARSE, TENANT, hit_of
from hivemem_vectors.stores.ports import (
    Between,
    Condition,
    Equal,
    FieldKind,
    Filter,
    Hit,
    OneOf,
    Schema,
    Vector,
)

Quantization: TypeAlias = Literal["none", "scalar"]

_MODEL: Final = "hivemem_model"
_GLOBAL_LINKS: Final = 0
_TENANT_LINKS: Final = 16
_BUILD_CANDIDATES: Final = 128
_KINDS: Final[dict[FieldKind, models.PayloadSchemaType]] = {
    "keyword": models.PayloadSchemaType.KEYWORD,
    "integer": models.PayloadSchemaType.INTEGER,
    "float": models.PayloadSchemaType.FLOAT,
}


async def create(client: AsyncQdrantClient, collection: str, schema: Schema, quantization: Quantization) -> None:
    scalar = models.ScalarQuantization(
        scalar=models.ScalarQuantizationConfig(type=models.ScalarType.INT8, quantile=0.99, always_ram=True)
    )
    await client.create_collection(
        collection,
        vectors_config={DENSE: models.VectorParams(size=schema.dimension, distance=models.Distance.COSINE)},
        sparse_vectors_config={SPARSE: models.SparseVectorParams(modifier=models.Modifier.IDF)},
        hnsw_config=models.HnswConfigDiff(m=_GLOBAL_LINKS, payload_m=_TENANT_LINKS, ef_construct=_BUILD_CANDIDATES),
        quantization_config=scalar if quantization == "scalar" else None,
        metadata={_MODEL: schema.model},
    )


async def create_indexes(
    client: AsyncQdrantClient, collection: str, info: models.CollectionInfo, schema: Schema
) -> None:
    """Those that are missing."""
    if TENANT not in info.payload_schema:
        params = models.KeywordIndexParams(type=models.KeywordIndexType.KEYWORD, is_tenant=True)
        await client.create_payload_index(collection, TENANT, params)
    for name, kind in schema.fields.items():
        if name not in info.payload_schema:
            await client.create_payload_index(collection, name, _KINDS[kind])


def schema_of(collection: str, info: models.CollectionInfo) -> Schema:
    vectors, model = info.config.params.vectors, (info.config.metadata or {}).get(_MODEL)
    dense = vectors.get(DENSE) if isinstance(vectors, dict) else None
    if dense is None or not isinstance(model, str):
        raise InvalidRequest(f"the collection {collection} of the vector store is none of Hivemem", field="collection")
    kinds: dict[str, FieldKind] = {known: kind for kind, known in _KINDS.items()}
    fields: dict[str, FieldKind] = {
        name: kinds[index.data_type]
        for name, index in info.payload_schema.items()
        if name != TENANT and index.data_type in kinds
    }
    return Schema(dense.size, model, fields)


RETRY_AFTER_MS: Final = 1_000

_NOT_NOW: Final = (
    grpc.StatusCode.ABORTED,
    grpc.StatusCode.CANCELLED,
    grpc.StatusCode.DEADLINE_EXCEEDED,
    grpc.StatusCode.RESOURCE_EXHAUSTED,
    grpc.StatusCode.UNAVAILABLE,
)
_SET_UP: Final = (grpc.StatusCode.PERMISSION_DENIED, grpc.StatusCode.UNAUTHENTICATED)
_FULL: Final = "No space left on device"


def unavailable(detail: str) -> Unavailable:
    return Unavailable(detail, retry_after_ms=RETRY_AFTER_MS)


@contextmanager
def translated(collection: str = "") -> Generator[None]:
    """Turn what the client raises inside into the port's errors. Addresses of the server stay out of the text."""
    try:
        yield
    except AioRpcError as error:
        raise _meaning(error, collection) from error
    except ResourceExhaustedResponse as error:
        raise Unavailable(
            "the vector store takes no more at once", retry_after_ms=error.retry_after_s * 1_000
        ) from error
    except AttributeError as error:
        # Seen once in tens of thousands of calls: gRPC gave the client no answer and no error either.
        if not str(error).startswith("'NoneType'"):
            raise
        raise unavailable("an answer of the vector store was lost") from error


def _meaning(error: AioRpcError, collection: str) -> HiveError:
    code, detail = error.code(), error.details() or ""
    if code is grpc.StatusCode.NOT_FOUND:
        return NotFound(f"there is no collection {collection}", collection=collection)
    if code is grpc.StatusCode.ALREADY_EXISTS:
        return AlreadyExists(f"there is a collection {collection}", collection=collection)
    if code in _NOT_NOW or _FULL in detail:
        return unavailable(f"the vector store cannot be reached or cannot do this now: {code.name}")
    if code in _SET_UP:
        return unavailable(f"the vector store cannot be used as it is set up: {code.name}")
    if code is grpc.StatusCode.INVALID_ARGUMENT:
        return InvalidRequest(f"the vector store refused: {detail}", field="collection", collection=collection)
    return Internal(f"the vector store failed with {code.name}: {detail}")


def qdrant_filter(where: Filter | None, numbers: Iterable[str] = ()) -> models.Filter:
    """Return the filter in the engine's terms. With keys, only those points pass."""
    must: list[models.Condition] = []
    if where is not None:
        must.append(models.FieldCondition(key=TENANT, match=models.MatchValue(value=where.tenant)))
        must += [_condition(condition) for condition in where.conditions]
    if has_id := list[models.ExtendedPointId](numbers):
        must.append(models.HasIdCondition(has_id=has_id))
    return models.Filter(must=must)


def _condition(condition: Condition) -> models.Condition:
    match condition:
        case Equal(name, value):
            return models.FieldCondition(key=name, match=models.MatchValue(value=value))
        case OneOf(name, values):
            words = [value for value in values if isinstance(value, str)]
            numbers = [value for value in values if isinstance(value, int)]
            return models.FieldCondition(key=name, match=models.MatchAny(any=words or numbers))
        case Between():
            within = models.FieldCondition(
                key=condition.field,
                range=models.Range(
                    gte=condition.at_least, gt=condition.above, lte=condition.at_most, lt=condition.below
                ),
            )
            if not condition.or_missing:
                return within
            missing = models.IsEmptyCondition(is_empty=models.PayloadField(key=condition.field))
            return models.Filter(should=[within, missing])


_UNION: Final = "kind"


def nearest_to(dense: Vector) -> messages.Query:
    data = np.asarray(dense, np.float32).tolist()
    return messages.Query(nearest=messages.VectorInput(dense=messages.DenseVector(data=data)))


def sharing_terms_with(indices: Sequence[int], values: Sequence[float]) -> messages.Query:
    terms = messages.SparseVector(indices=indices, values=values)
    return messages.Query(nearest=messages.VectorInput(sparse=terms))


def points_query(
    side: str,
    query: messages.Query,
    where: models.Filter,
    limit: int,
    params: models.SearchParams,
    *,
    payload: bool | Sequence[str],
) -> messages.QueryPoints:
    """`payload`: all of it, none, or the fields of these names."""
    selector = (
        messages.WithPayloadSelector(enable=payload)
        if isinstance(payload, bool)
        else messages.WithPayloadSelector(include=messages.PayloadIncludeSelector(fields=payload))
    )
    return messages.QueryPoints(
        query=query,
        using=side,
        filter=RestToGrpc.convert_filter(where),
        limit=limit,
        params=RestToGrpc.convert_search_params(params),
        with_payload=selector,
    )


async def query_batch(
    client: AsyncQdrantClient, collection: str, queries: Sequence[messages.QueryPoints], timeout_seconds: int
) -> list[list[Hit]]:
    """Return the hits of each query. Raises the errors of gRPC."""
    for query in queries:
        query.collection_name = collection
    stub: Any = client.grpc_points  # which has no types
    batch = messages.QueryBatchPoints(collection_name=collection, query_points=queries)
    response = await stub.QueryBatch(batch, timeout=timeout_seconds)
    return [[_hit(point) for point in answer.result] for answer in response.result]


def _hit(point: Any) -> Hit:
    return hit_of(point.id.uuid, point.score, {name: _plain(value) for name, value in point.payload.items()})


def _plain(value: Any) -> Any:
    """A text, a number, or a list of texts: other values no point has."""
    kind = value.WhichOneof(_UNION)
    if kind == "list_value":
        return [each.string_value for each in value.list_value.values]
    return getattr(value, kind)
