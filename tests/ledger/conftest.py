"""One fixture for all backends, so that every test of the port runs on every store."""

import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any, Literal

import pytest
from pymongo import MongoClient

from hivemem_runtime.ledger.port import Ledger
from hivemem_testing.contract import Server

from .backends import Backend, MongoStore, SqliteStore, Store
from .clock import ManualClock


@pytest.fixture(scope="session")
def mongo_client(mongo_server: Server) -> Iterator[MongoClient[dict[str, Any]]]:
    """A client that drops the tests' databases and inspects the stored data."""
    with MongoClient[dict[str, Any]](mongo_server.url) as client:
        yield client


def _sqlite(request: pytest.FixtureRequest) -> Iterator[Store]:
    directory: Path = request.getfixturevalue("tmp_path")
    yield SqliteStore(directory / "ledger.db")


def _mongo(request: pytest.FixtureRequest, driver: Literal["motor", "pymongo"]) -> Iterator[Store]:
    server: Server = request.getfixturevalue("mongo_server")
    client: MongoClient[dict[str, Any]] = request.getfixturevalue("mongo_client")
    database = f"test_{uuid.uuid4().hex}"
    yield MongoStore(server.url, database, driver, client)
    client.drop_database(database)


MAKERS: dict[str, Callable[[pytest.FixtureRequest], Iterator[Store]]] = {
    "sqlite": _sqlite,
    "mongo-motor": lambda request: _mongo(request, "motor"),
    "mongo-pymongo": lambda request: _mongo(request, "pymongo"),
}


@pytest.fixture(params=MAKERS)
def store(request: pytest.FixtureRequest) -> Iterator[Store]:
    yield from MAKERS[request.param](request)


@pytest.fixture
async def backend(store: Store) -> AsyncIterator[Backend]:
    backend = Backend(store)
    yield backend
    await backend.close_all()


@pytest.fixture
def clock(backend: Backend) -> ManualClock:
    """The default clock of every ledger that the test opens."""
    return backend.clock


@pytest.fixture
async def ledger(backend: Backend) -> Ledger:
    return await backend.open()
