"""One fixture for all backends, so that every test of the port runs on every store."""

import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any, Final, Literal

import pytest
from pymongo import MongoClient

from hivemem_runtime.ledger.port import Ledger
from hivemem_testing.contract import Server
from hivemem_testing.stores import parametrize_stores

from .backends import Backend, MongoStore, SqliteStore, Store
from .clock import ManualClock


@pytest.fixture(scope="session")
def mongo_client(mongo_server: Server) -> Iterator[MongoClient[dict[str, Any]]]:
    """A client that drops the tests' databases and inspects the stored data."""
    with MongoClient[dict[str, Any]](mongo_server.url) as client:
        yield client


@pytest.fixture(scope="session")
def mongo_database(mongo_client: MongoClient[dict[str, Any]]) -> Iterator[str]:
    """The name of the database that the tests use one after the other."""
    name = f"test_{uuid.uuid4().hex}"
    yield name
    mongo_client.drop_database(name)


@pytest.fixture
def database(mongo_client: MongoClient[dict[str, Any]], mongo_database: str) -> Iterator[str]:
    """The name of a database without documents, for the entities of the suite. Its collections and indexes stay, since
    to create and drop them takes longer than most tests."""
    yield mongo_database
    database = mongo_client[mongo_database]
    for collection in database.list_collection_names():
        database[collection].delete_many({})


def _sqlite(request: pytest.FixtureRequest) -> Iterator[Store]:
    directory: Path = request.getfixturevalue("tmp_path")
    yield SqliteStore(directory / "ledger.db")


def _mongo(request: pytest.FixtureRequest, driver: Literal["motor", "pymongo"]) -> Iterator[Store]:
    server: Server = request.getfixturevalue("mongo_server")
    client: MongoClient[dict[str, Any]] = request.getfixturevalue("mongo_client")
    store = MongoStore(server.url, request.getfixturevalue("database"), driver, client)
    yield store
    if store.has_other_entities:
        client.drop_database(store.database)


MAKERS: dict[str, Callable[[pytest.FixtureRequest], Iterator[Store]]] = {
    "sqlite": _sqlite,
    "mongo-motor": lambda request: _mongo(request, "motor"),
    "mongo-pymongo": lambda request: _mongo(request, "pymongo"),
}


DRIVER_SENSITIVE: Final = frozenset(
    {
        "test_commit",
        "test_conflicts",
        "test_erase",
        "test_evolution",
        "test_find",
        "test_freeze",
        "test_large_writes",
        "test_past",
        "test_random_history",
    }
)
"""The modules whose tests run with both drivers of MongoDB; together they use every call of a driver. The others run
with the driver of the workers, because the rest of the ledger does not depend on the driver."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    parametrize_stores(metafunc, "store", tuple(MAKERS), DRIVER_SENSITIVE, enough=2)


@pytest.fixture
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
