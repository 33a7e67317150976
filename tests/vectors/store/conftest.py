"""Every test of the port runs on every kind of store, in a collection of its own."""

import uuid
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
import pytest_asyncio

from hivemem_vectors.stores.ports import VectorStore

from .backends import BACKENDS, MORTALS, Mortal
from .points import SCHEMA


@pytest.fixture(params=BACKENDS)
def opened(request: pytest.FixtureRequest) -> Callable[[], VectorStore]:
    """A store on the test's place, which one process opens at a time."""
    return BACKENDS[request.param](request)


@pytest_asyncio.fixture
async def store(opened: Callable[[], VectorStore]) -> AsyncIterator[VectorStore]:
    store = opened()
    yield store
    await store.close()


@pytest_asyncio.fixture
async def collection(store: VectorStore) -> AsyncIterator[str]:
    name = f"test-{uuid.uuid4().hex}"
    await store.ensure_collection(name, SCHEMA)
    yield name
    await store.drop_collection(name)


@pytest_asyncio.fixture(params=MORTALS)
async def mortal(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Mortal]:
    async with MORTALS[request.param](tmp_path) as mortal:
        yield mortal
