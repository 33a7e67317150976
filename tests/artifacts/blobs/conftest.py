"""Every test of the port runs on every kind of store, with an empty store each time."""

from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio

from hivemem_artifacts.ports import BlobStore

from .backends import BACKENDS, Backend


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> Iterator[Backend]:
    yield from BACKENDS[request.param](request)


@pytest_asyncio.fixture
async def store(backend: Backend) -> AsyncIterator[BlobStore]:
    store = backend.open()
    await store.check()
    yield store
    await store.close()


@pytest_asyncio.fixture
async def other(backend: Backend, store: BlobStore) -> AsyncIterator[BlobStore]:
    """Another store on the same place, as a second worker opens it."""
    del store  # the first store has created the place
    other = backend.open()
    yield other
    await other.close()
