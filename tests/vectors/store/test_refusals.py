"""Invalid points and queries are refused before anything is stored."""

import math
from collections.abc import Sequence
from typing import cast

import numpy as np
import pytest

from hivemem_contracts.errors import HiveError, InvalidRequest, Unavailable
from hivemem_vectors.stores.ports import (
    CONDITIONS_PER_FILTER,
    POINTS_PER_CALL,
    Between,
    Condition,
    Equal,
    Filter,
    OneOf,
    Point,
    Schema,
    Value,
    Vector,
    VectorStore,
)

from .points import DIMENSION, TENANT, Words, many, point, search, vector

ALL = Filter(TENANT)
VECTORS: dict[str, Vector] = {
    "another dimension": vector(1, dimension=DIMENSION + 1),
    "no dimension": np.zeros((), np.float32),
    "two dimensions": np.zeros((DIMENSION, DIMENSION), np.float32),
    "not a number": vector(math.nan),
    "infinite": vector(1, -math.inf),
    "too large to measure": vector(3e38, 3e38),
}
WORDS = {
    "more indices": Words([1, 2], [1.0]),
    "twice": Words([1, 1], [1.0, 1.0]),
    "negative": Words([-1], [1.0]),
    "over 32 bits": Words([2**32], [1.0]),
    "not a number": Words([1], [math.nan]),
    "infinite": Words([1], [math.inf]),
}


@pytest.mark.parametrize("name", VECTORS)
async def test_a_vector_that_is_none_of_the_collection(store: VectorStore, collection: str, name: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        await store.upsert(collection, [point("good"), Point(TENANT, "bad", VECTORS[name])])
    assert refused.value.context["field"] == "vector"
    if "dimension" in name:
        assert refused.value.context["expected"] == DIMENSION
    with pytest.raises(InvalidRequest):
        await search(store, collection, ALL, dense=VECTORS[name], limit=1)
    assert await store.count(collection) == 0


@pytest.mark.parametrize("name", WORDS)
async def test_terms_that_are_none(store: VectorStore, collection: str, name: str) -> None:
    with pytest.raises(InvalidRequest, match="sparse"):
        await store.upsert(collection, [point("good"), point("bad", words=WORDS[name])])
    with pytest.raises(InvalidRequest, match="sparse"):
        await search(store, collection, ALL, sparse=WORDS[name], limit=1)
    assert await store.count(collection) == 0


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("tenant", "x"),
        ("id", "x"),
        ("A", "x"),
        ("a.b", "x"),
        ("", "x"),
        ("size", math.nan),
        ("size", 2**63),
        ("text", "\ud800"),
        ("texts", ["fine", "\ud800"]),
    ],
)
async def test_values_that_cannot_be_kept(store: VectorStore, collection: str, name: str, value: Value) -> None:
    with pytest.raises(InvalidRequest) as refused:
        await store.upsert(collection, [point("good"), Point(TENANT, "bad", vector(1), None, {name: value})])
    assert refused.value.context["field"] == name
    assert await store.count(collection) == 0


@pytest.mark.parametrize(
    "conditions",
    [
        [Equal("tenant", "other")],
        [Equal("a.b", "x")],
        [Equal("size", 2**63)],
        [Equal("size", True)],
        [Equal("text", "\ud800")],
        [OneOf("size", [])],
        [OneOf("size", [0] * 1_000)],
        [OneOf("size", cast("list[int]", ["1", 2]))],
        [Between("size")],
        [Between("size", below=math.nan)],
        [Between("size", below=2**53 + 1)],
        [Equal("size", 1)] * (CONDITIONS_PER_FILTER + 1),
    ],
)
async def test_filters_that_are_none(store: VectorStore, collection: str, conditions: Sequence[Condition]) -> None:
    where = Filter(TENANT, conditions)
    with pytest.raises(InvalidRequest):
        await search(store, collection, where, dense=vector(1), limit=1)
    with pytest.raises(InvalidRequest):
        await store.delete_where(collection, where)
    with pytest.raises(InvalidRequest):
        await store.count(collection, where)


async def test_more_than_a_call_takes(store: VectorStore, collection: str) -> None:
    points = many(POINTS_PER_CALL + 1)
    with pytest.raises(InvalidRequest):
        await store.upsert(collection, points)
    with pytest.raises(InvalidRequest):
        await store.delete(collection, TENANT, [point.id for point in points])
    for limit in (0, POINTS_PER_CALL + 1):
        with pytest.raises(InvalidRequest):
            await search(store, collection, ALL, dense=vector(1), limit=limit)
        with pytest.raises(InvalidRequest):
            await store.scroll(collection, limit=limit)
    with pytest.raises(InvalidRequest):
        await store.scroll(collection, after="nonsense")


@pytest.mark.parametrize("name", ["", "A", "../up", "a/b", "x" * 64, "1a", ".hidden"])
async def test_names_that_are_none(store: VectorStore, name: str) -> None:
    with pytest.raises(InvalidRequest):
        await store.ensure_collection(name, Schema(DIMENSION, "model"))
    with pytest.raises(InvalidRequest):
        await store.drop_collection(name)
    with pytest.raises(InvalidRequest):
        await store.count(name)


@pytest.mark.parametrize("name", ["", "tenant", "id", "A", "a.b"])
async def test_values_that_no_point_has(store: VectorStore, collection: str, name: str) -> None:
    with pytest.raises(InvalidRequest):
        await search(store, collection, Filter(TENANT), dense=vector(1), limit=1, values=[name])


@pytest.mark.parametrize("dimension", [0, -1, 100_000])
async def test_dimensions_that_are_none(store: VectorStore, dimension: int) -> None:
    with pytest.raises(InvalidRequest, match="dimension"):
        await store.ensure_collection("any", Schema(dimension, "model"))


async def test_a_closed_store_is_unavailable(store: VectorStore) -> None:
    await store.check()
    await store.close()
    with pytest.raises(Unavailable, match="closed") as refused:
        await store.check()
    assert isinstance(refused.value, HiveError)
    assert refused.value.retryable
