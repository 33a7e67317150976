"""Recall and vectors on the wire: which requests are accepted, refused, or allowed as durable commands."""

from typing import Any

import orjson
import pytest
from pydantic import ValidationError

from hivemem_contracts.errors import InvalidRequest, TooLarge
from hivemem_contracts.limits import (
    EMBEDDING_DIMENSIONS,
    QUERY_CHARACTERS,
    RECALL_FILTERS,
    RECALL_MAXIMUM,
    RECALL_WAIT_MAXIMUM_MS,
    VECTOR_METADATA_BYTES,
)
from hivemem_contracts.model import decode_body
from hivemem_contracts.vectors.models import Weights
from hivemem_contracts.vectors.operations import VECTORS
from hivemem_contracts.vectors.requests import QueryVectors, Recall, StoreVector

REQUESTS = {
    "recall": "query namespace_prefix? memory_type? kinds? user_id? app_name? project_id? session_ids? context? "
    "filter? limit? cursor? weights? rerank? max_tokens? min_version? wait_ms? explain?",
    "store": "id embedding metadata? collection?",
    "query": "embedding top_k? filter? collection?",
    "delete": "id collection?",
    "status": "namespace? key? state? limit? cursor?",
    "overview": "",
    "sweep": "dry_run? cursor?",
}
REPLIES = {
    "recall": "items cursor? degraded? cut?",
    "store": "id collection version duplicate",
    "query": "items",
    "delete": "id collection deleted duplicate?",
    "status": "items cursor",
    "overview": "synced pending stale failed waiting model dimension embedder store",
    "sweep": "checked missing left_over cursor",
}


def fields_of(model: Any) -> str:
    return " ".join(name if field.is_required() else f"{name}?" for name, field in model.model_fields.items())


def recall(**fields: Any) -> Recall:
    return decode_body(Recall, orjson.dumps({"query": "a", **fields}))


def test_the_operations_are_those_of_the_contract() -> None:
    assert {operation.name: fields_of(operation.request) for operation in VECTORS} == REQUESTS
    assert {operation.name: fields_of(operation.reply) for operation in VECTORS} == REPLIES


def test_what_can_be_published_without_waiting_is_storing_and_deleting() -> None:
    durable = {operation.name: operation.route for operation in VECTORS if operation.durable}
    assert durable == {"store": "collection", "delete": "collection"}


def test_recall_takes_all_that_it_may_be_asked() -> None:
    body = recall(
        query="x" * QUERY_CHARACTERS,
        namespace_prefix="user:alice",
        memory_type="episodic",
        filter={
            "metadata": {f"field {number}": number for number in range(RECALL_FILTERS - 2)} | {"a": "b", "c": True},
            "created_by": "bot",
            "updated_after": "2026-01-31T09:30:00Z",
            "updated_before": "2026-02-28T09:30:00+01:00",
            "valid_at": "2026-02-01T00:00:00.5Z",
            "min_importance": 0,
        },
        limit=RECALL_MAXIMUM,
        weights={"relevance": 0, "recency": 1, "dense": 0.5, "half_life_days": 0.5},
        max_tokens=1,
        min_version=1,
        wait_ms=RECALL_WAIT_MAXIMUM_MS,
    )
    assert body.filter is not None
    assert body.filter.metadata is not None
    # JSON distinguishes 1 and true, while Python treats them as equal.
    assert (body.filter.metadata["field 1"], body.filter.metadata["c"]) == (1, True)
    assert isinstance(body.filter.metadata["field 1"], int)
    assert body.filter.metadata["c"] is True


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"query": ""}, "query"),
        ({"query": " \n"}, "query"),
        ({"query": "x" * (QUERY_CHARACTERS + 1)}, "query"),
        ({"namespace_prefix": "user:"}, "namespace_prefix"),
        ({"namespace_prefix": "alice"}, "namespace_prefix"),
        ({"memory_type": "vague"}, "memory_type"),
        ({"limit": 0}, "limit"),
        ({"limit": RECALL_MAXIMUM + 1}, "limit"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"min_version": 0}, "min_version"),
        ({"wait_ms": RECALL_WAIT_MAXIMUM_MS + 1}, "wait_ms"),
        ({"weights": {"relevance": 0}}, "weights"),
        ({"weights": {"relevance": 1.5}}, "weights.relevance"),
        ({"weights": {"half_life_days": 0}}, "weights.half_life_days"),
        ({"filter": {"colour": "red"}}, "filter.colour"),
        ({"filter": {"metadata": {"a": [1]}}}, "filter.metadata.a"),
        ({"filter": {"metadata": {"a": 1.5}}}, "filter.metadata.a"),
        ({"filter": {"metadata": {str(n): n for n in range(RECALL_FILTERS + 1)}}}, "filter.metadata"),
        ({"filter": {"updated_after": "yesterday"}}, "filter.updated_after"),
        ({"filter": {"min_importance": 2}}, "filter.min_importance"),
    ],
)
def test_what_recall_cannot_be_asked_is_named(fields: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        recall(**fields)
    assert refused.value.context["field"] == field


@pytest.mark.parametrize("embedding", [[], [1.0] * (EMBEDDING_DIMENSIONS + 1), ["1"], "AAAA", [None]])
def test_what_is_no_vector_is_refused(embedding: Any) -> None:
    for model, more in ((StoreVector, {"id": "a"}), (QueryVectors, {})):
        with pytest.raises(InvalidRequest) as refused:
            decode_body(model, orjson.dumps({"embedding": embedding, **more}))
        assert refused.value.context["field"].startswith("embedding")


@pytest.mark.parametrize("number", ["NaN", "Infinity", "1e999"])
def test_a_vector_is_of_finite_numbers(number: str) -> None:
    with pytest.raises(InvalidRequest):
        decode_body(StoreVector, f'{{"id": "a", "embedding": [1, {number}]}}'.encode())


@pytest.mark.parametrize("collection", ["", "Upper", "-a", "a b", "a" * 49, "a.b"])
def test_what_is_no_name_of_a_collection_is_refused(collection: str) -> None:
    with pytest.raises(InvalidRequest, match="collection"):
        decode_body(StoreVector, orjson.dumps({"id": "a", "embedding": [1], "collection": collection}))


def test_the_metadata_of_a_vector_has_its_size() -> None:
    room = VECTOR_METADATA_BYTES - len(b'{"a":""}')
    body = decode_body(StoreVector, orjson.dumps({"id": "a", "embedding": [1], "metadata": {"a": "x" * room}}))
    assert body.metadata == {"a": "x" * room}
    with pytest.raises(TooLarge) as refused:
        decode_body(StoreVector, orjson.dumps({"id": "a", "embedding": [1], "metadata": {"a": "x" * (room + 1)}}))
    assert refused.value.context["field"] == "metadata"


def test_weights_that_count_nothing_are_none() -> None:
    with pytest.raises(ValidationError, match="has to be more than 0"):
        Weights(relevance=0)
    assert Weights(relevance=0, importance=0.1).dense == 0.5
