"""Queries in gRPC's own messages: the client's own way copies each question number by number, and takes each value of
each answer through JSON, which is longer than the server thinks about it."""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from qdrant_client import AsyncQdrantClient, grpc, models
from qdrant_client.conversions.conversion import RestToGrpc

from hivemem_vectors.adapters.merging import Found
from hivemem_vectors.ports import Sparse, Vector

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
) -> list[list[Found]]:
    """What each of them finds. Raises what gRPC does."""
    for query in queries:
        query.collection_name = collection
    stub: Any = client.grpc_points  # which has no types
    batch = grpc.QueryBatchPoints(collection_name=collection, query_points=queries)
    response = await stub.QueryBatch(batch, timeout=timeout_seconds)
    return [[_found(point) for point in answer.result] for answer in response.result]


def _found(point: Any) -> Found:
    return Found(point.id.uuid, point.score, {name: _plain(value) for name, value in point.payload.items()})


def _plain(value: Any) -> Any:
    """A text, a number, or a list of texts: other values no point has."""
    kind = value.WhichOneof(_UNION)
    if kind == "list_value":
        return [each.string_value for each in value.list_value.values]
    return getattr(value, kind)
