"""The port's filters and queries in the messages of the server."""

from collections.abc import Iterable, Sequence
from typing import Any, Final

import numpy as np
from qdrant_client import AsyncQdrantClient, grpc, models
from qdrant_client.conversions.conversion import RestToGrpc

from hivemem_vectors.stores.payloads import TENANT, hit_of
from hivemem_vectors.stores.ports import Between, Condition, Equal, Filter, Hit, OneOf, Sparse, Vector


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


def nearest_to(dense: Vector) -> grpc.Query:
    data = np.asarray(dense, np.float32).tolist()
    return grpc.Query(nearest=grpc.VectorInput(dense=grpc.DenseVector(data=data)))


def sharing_terms_with(sparse: Sparse) -> grpc.Query:
    terms = grpc.SparseVector(indices=sparse.indices, values=sparse.values)
    return grpc.Query(nearest=grpc.VectorInput(sparse=terms))


def points_query(
    side: str,
    query: grpc.Query,
    where: models.Filter,
    limit: int,
    params: models.SearchParams,
    *,
    payload: bool | Sequence[str],
) -> grpc.QueryPoints:
    """`payload`: all of it, none, or the fields of these names."""
    selector = (
        grpc.WithPayloadSelector(enable=payload)
        if isinstance(payload, bool)
        else grpc.WithPayloadSelector(include=grpc.PayloadIncludeSelector(fields=payload))
    )
    return grpc.QueryPoints(
        query=query,
        using=side,
        filter=RestToGrpc.convert_filter(where),
        limit=limit,
        params=RestToGrpc.convert_search_params(params),
        with_payload=selector,
    )


async def query_batch(
    client: AsyncQdrantClient, collection: str, queries: Sequence[grpc.QueryPoints], timeout_seconds: int
) -> list[Hit]:
    """Return the hits of all queries, one query after the other. Raises the errors of gRPC."""
    for query in queries:
        query.collection_name = collection
    stub: Any = client.grpc_points  # which has no types
    batch = grpc.QueryBatchPoints(collection_name=collection, query_points=queries)
    response = await stub.QueryBatch(batch, timeout=timeout_seconds)
    return [_hit(point) for answer in response.result for point in answer.result]


def _hit(point: Any) -> Hit:
    return hit_of(point.id.uuid, point.score, {name: _plain(value) for name, value in point.payload.items()})


def _plain(value: Any) -> Any:
    """A text, a number, or a list of texts: other values no point has."""
    kind = value.WhichOneof(_UNION)
    if kind == "list_value":
        return [each.string_value for each in value.list_value.values]
    return getattr(value, kind)
