"""The settings of each kind of ledger store, empty at first."""

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pymongo import MongoClient

from hivemem_testing.contract import Server

Settings = dict[str, Any]


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
