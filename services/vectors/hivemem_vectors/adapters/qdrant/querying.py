"""Queries over gRPC itself: the client's own way copies each question number by number, and takes each value of each
answer through JSON, which is longer than the server thinks about it."""

from collections.abc import Sequence
from typing import Any

from qdrant_client import AsyncQdrantClient, grpc, models
from qdrant_client.conversions.conversion import RestToGrpc

from hivemem_vectors.adapters.merging import Found


async def query_batch(
    client: AsyncQdrantClient, collection: str, requests: Sequence[models.QueryRequest], timeout_seconds: int
) -> list[list[Found]]:
    """What each of them finds. Raises what gRPC does."""
    wanted = grpc.QueryBatchPoints(
        collection_name=collection,
        query_points=[RestToGrpc.convert_query_request(request, collection) for request in requests],
    )
    stub: Any = client.grpc_points  # which has no types
    response = await stub.QueryBatch(wanted, timeout=timeout_seconds)
    return [[_found(point) for point in answer.result] for answer in response.result]


def _found(point: Any) -> Found:
    return Found(point.id.uuid, point.score, {name: _plain(value) for name, value in point.payload.items()})


def _plain(value: Any) -> Any:
    """A text, a number, or a list of texts: other values no point has."""
    kind = value.WhichOneof("kind")
    if kind == "list_value":
        return [each.string_value for each in value.list_value.values]
    return getattr(value, kind)
