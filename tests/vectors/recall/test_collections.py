"""A broken collection, on each store."""

from dataclasses import replace

import pytest

from hivemem_vectors.pipeline.decisions.changes import version_of_memory
from hivemem_vectors.pipeline.decisions.points import FIELDS
from hivemem_vectors.stores.ports import Schema

from .meaning import DIMENSION, MODEL
from .shelf import Shelf, keys

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def with_collection(shelf: Shelf, name: str) -> Shelf:
    """Return a shelf with a memory that was once indexed in the collection."""
    desk = replace(shelf.desk, collection=name)
    other = Shelf(desk, shelf.bot, desk.service())
    await other.mirror(version_of_memory(other.tenant, await other.bot.put("car", "a red car")))
    return other


async def test_a_collection_that_was_lost_is_made_again(shelf: Shelf) -> None:
    name, store = f"{shelf.desk.collection}-lost", shelf.desk.store
    shelf = await with_collection(shelf, name)

    answer = await shelf.answer("vehicle")

    assert keys(answer) == ["car"]
    assert answer["degraded"]["reasons"] == ["index"]
    assert await store.schema(name) == Schema(DIMENSION, MODEL, FIELDS)
    assert (await shelf.answer("vehicle"))["degraded"] is None
    await store.drop_collection(name)


async def test_a_collection_of_another_dimension_is_not_the_callers_fault(shelf: Shelf) -> None:
    name, store = f"{shelf.desk.collection}-wide", shelf.desk.store
    await store.ensure_collection(name, Schema(DIMENSION + 1, MODEL, FIELDS))
    shelf = await with_collection(shelf, name)

    answer = await shelf.answer("vehicle")

    assert keys(answer) == ["car"]
    assert answer["degraded"]["reasons"] == ["index"]
    await store.drop_collection(name)
