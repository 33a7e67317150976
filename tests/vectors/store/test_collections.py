"""A collection belongs to one model, and exists until it is dropped."""

import asyncio
import uuid
from collections.abc import Callable
from dataclasses import replace

import pytest

from hivemem_contracts.errors import InvalidRequest, NotFound
from hivemem_vectors.stores.ports import Filter, Schema, VectorStore

from .points import DIMENSION, MODEL, SCHEMA, TENANT, many, point, search, vector


async def test_check_passes_where_the_store_can_be_used(store: VectorStore) -> None:
    await store.check()


async def test_a_collection_tells_what_it_was_made_for(store: VectorStore, collection: str) -> None:
    assert await store.schema(collection) == SCHEMA


async def test_ensuring_it_again_keeps_its_points(store: VectorStore, collection: str) -> None:
    await store.upsert(collection, [point("one")])
    await store.ensure_collection(collection, SCHEMA)
    assert await store.count(collection) == 1


async def test_ensuring_it_again_adds_fields(store: VectorStore, collection: str) -> None:
    more = replace(SCHEMA, fields={**SCHEMA.fields, "memory_type": "keyword"})
    await store.ensure_collection(collection, more)
    assert await store.schema(collection) == more


async def test_several_can_ensure_it_at_once(store: VectorStore) -> None:
    name = f"test-{uuid.uuid4().hex}"
    await asyncio.gather(*[store.ensure_collection(name, SCHEMA) for _ in range(4)])
    assert await store.schema(name) == SCHEMA
    await store.drop_collection(name)


async def test_another_dimension_is_refused_by_name(store: VectorStore, collection: str) -> None:
    with pytest.raises(InvalidRequest, match="dimension") as refused:
        await store.ensure_collection(collection, Schema(DIMENSION + 1, MODEL))
    assert refused.value.context["field"] == "dimension"
    assert (refused.value.context["expected"], refused.value.context["actual"]) == (DIMENSION, DIMENSION + 1)


async def test_another_model_is_refused_by_name(store: VectorStore, collection: str) -> None:
    with pytest.raises(InvalidRequest, match="another-model") as refused:
        await store.ensure_collection(collection, Schema(DIMENSION, "another-model"))
    assert (refused.value.context["expected"], refused.value.context["actual"]) == (MODEL, "another-model")


async def test_a_dropped_one_is_gone_and_can_be_made_for_another_model(store: VectorStore, collection: str) -> None:
    await store.upsert(collection, many(3))
    await store.drop_collection(collection)
    await store.drop_collection(collection)
    with pytest.raises(NotFound):
        await store.count(collection)
    await store.ensure_collection(collection, Schema(3, "another-model"))
    assert await store.count(collection) == 0
    assert (await store.schema(collection)).model == "another-model"


async def test_one_that_does_not_exist_is_not_found(store: VectorStore) -> None:
    where = Filter(TENANT)
    calls: list[Callable[[], object]] = [
        lambda: store.schema("missing"),
        lambda: store.upsert("missing", [point("one")]),
        lambda: search(store, "missing", where, dense=vector(1), limit=1),
        lambda: store.delete("missing", TENANT, ["one"]),
        lambda: store.delete_where("missing", where),
        lambda: store.scroll("missing"),
        lambda: store.count("missing"),
    ]
    for call in calls:
        with pytest.raises(NotFound, match="missing"):
            await call()  # type: ignore[misc]  # each returns something else to wait for


async def test_points_are_there_when_the_store_is_opened_again(
    opened: Callable[[], VectorStore], store: VectorStore
) -> None:
    collection = f"test-{uuid.uuid4().hex}"
    await store.ensure_collection(collection, SCHEMA)
    await store.upsert(collection, many(10))
    await store.close()
    await store.close()
    again = opened()
    try:
        assert await again.count(collection) == 10
        assert await again.schema(collection) == SCHEMA
        await again.drop_collection(collection)
    finally:
        await again.close()
