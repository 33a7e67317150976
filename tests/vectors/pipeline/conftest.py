"""The parts of a worker: a ledger per test, and a collection per test in a shared store."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from hivemem_runtime.ledger.sqlite import SqliteLedger
from hivemem_vectors.stores.edge.store import EdgeVectors

from .bench import Bench, open_ledger


@pytest_asyncio.fixture(loop_scope="session")
async def ledger(tmp_path: Path) -> AsyncIterator[SqliteLedger]:
    ledger = open_ledger(tmp_path)
    await ledger.open()
    yield ledger
    await ledger.close()


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def shared_edge(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[EdgeVectors]:
    store = EdgeVectors(tmp_path_factory.mktemp("pipeline") / "edge")
    yield store
    await store.close()


@pytest_asyncio.fixture(loop_scope="session")
async def bench(ledger: SqliteLedger, shared_edge: EdgeVectors) -> AsyncIterator[Bench]:
    bench = Bench(ledger, shared_edge)
    await bench.indexer.prepare()
    yield bench
    await shared_edge.drop_collection(bench.collection)


@pytest_asyncio.fixture(loop_scope="session")
async def edge(tmp_path: Path) -> AsyncIterator[EdgeVectors]:
    """An engine that may be killed."""
    store = EdgeVectors(tmp_path / "edge")
    yield store
    await store.close()


@pytest_asyncio.fixture(loop_scope="session")
async def mortal_bench(ledger: SqliteLedger, edge: EdgeVectors) -> Bench:
    bench = Bench(ledger, edge)
    await bench.indexer.prepare()
    return bench
