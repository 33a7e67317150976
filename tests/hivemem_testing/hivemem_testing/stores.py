"""The stores that the tests of a worker run on.

The ledger's conformance suite proves each store. So a worker's tests run on SQLite, and only the modules that depend on
the store (concurrency, kills, long scans) run on the others too. `HIVEMEM_TEST_STORES=all` runs every test on every
store, and the conformance suite with both drivers of MongoDB throughout.
"""

import os
import uuid
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import pytest
from pymongo import MongoClient

from hivemem_testing.contract import Server

Settings = dict[str, Any]

EVERYWHERE: Final = os.environ.get("HIVEMEM_TEST_STORES") == "all"
LEFT_OUT: Final = pytest.StashKey[int]()
"""Counts the tests of this run that do not run on every store."""


def parametrize_stores(
    metafunc: pytest.Metafunc, fixture: str, stores: Sequence[str], sensitive: Collection[str], enough: int = 1
) -> None:
    """Parametrize `fixture` with every store in `sensitive` modules, and with the first `enough` of them elsewhere."""
    if fixture not in metafunc.fixturenames:
        return
    everywhere = EVERYWHERE or metafunc.definition.path.stem in sensitive
    chosen = stores if everywhere else stores[:enough]
    if len(chosen) < len(stores):
        metafunc.config.stash[LEFT_OUT] = metafunc.config.stash.get(LEFT_OUT, 0) + 1
    metafunc.parametrize(fixture, chosen, indirect=True)


def left_out(config: pytest.Config) -> str | None:
    """Return a line about the tests that did not run on every store, if there are any."""
    count = config.stash.get(LEFT_OUT, 0)
    return (
        f"{count} tests did not run on every store: HIVEMEM_TEST_STORES=all runs all tests everywhere"
        if count
        else None
    )


def _sqlite(request: pytest.FixtureRequest, name: str) -> Iterator[Settings]:
    directories: pytest.TempPathFactory = request.getfixturevalue("tmp_path_factory")
    data: Path = directories.mktemp(name)
    yield {"store": "sqlite", "data": data}


def _mongo(request: pytest.FixtureRequest, name: str) -> Iterator[Settings]:
    server: Server = request.getfixturevalue("mongo_server")
    database = f"{name}_{uuid.uuid4().hex[:20]}"
    yield {"store": "mongo", "mongo_url": server.url, "mongo_database": database}
    with MongoClient[dict[str, Any]](server.url) as client:
        client.drop_database(database)


STORES: dict[str, Callable[[pytest.FixtureRequest, str], Iterator[Settings]]] = {"sqlite": _sqlite, "mongo": _mongo}
"""The stores by name; each takes the fixture's request and a name for its database."""
