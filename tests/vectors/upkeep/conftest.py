"""A worker's insides on SQLite and in files."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from hivemem_runtime.ledger.sqlite import SqliteLedger
from hivemem_vectors.adapters.edge import EdgeVectors
from hivemem_vectors.decisions.storing import physical
from hivemem_vectors.entities import ENTITIES

from ..wayward import WaywardStore
from .bench import COLLECTION, Bench


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def edge(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[EdgeVectors]:
    """One process of the engine for all tests of a module: it takes a while to start."""
    edge = EdgeVectors(tmp_path_factory.mktemp("vectors") / "edge")
    yield edge
    await edge.close()


@pytest_asyncio.fixture(loop_scope="module")
async def store(edge: EdgeVectors) -> AsyncIterator[WaywardStore]:
    """Empty at first."""
    store = WaywardStore(edge)
    yield store
    store.gate.set()
    for collection in (COLLECTION, physical(2), physical(3), physical(7)):
        await edge.drop_collection(collection)


@pytest_asyncio.fixture(loop_scope="module")
async def ledger(tmp_path: Path) -> AsyncIterator[SqliteLedger]:
    ledger = SqliteLedger(tmp_path / "vectors.sqlite", ENTITIES)
    await ledger.open()
    yield ledger
    await ledger.close()


@pytest_asyncio.fixture(loop_scope="module")
async def bench(ledger: SqliteLedger, store: WaywardStore) -> AsyncIterator[Bench]:
    bench = Bench(ledger, store)
    await bench.indexer.prepare()
    yield bench
    store.gate.set()
    await bench.settling.stop()
