"""The parts of a worker on SQLite and in files."""

from collections.abc import AsyncIterator

import pytest_asyncio

from hivemem_runtime.ledger.sqlite import SqliteLedger
from hivemem_vectors.own.decisions import physical
from hivemem_vectors.stores.edge.store import EdgeVectors

from ..wayward import WaywardStore
from .bench import COLLECTION, Bench


@pytest_asyncio.fixture(loop_scope="module")
async def store(edge: EdgeVectors) -> AsyncIterator[WaywardStore]:
    """A vector store that is empty at first."""
    store = WaywardStore(edge)
    yield store
    store.gate.set()
    for collection in (COLLECTION, physical(2), physical(3), physical(7)):
        await edge.drop_collection(collection)


@pytest_asyncio.fixture(loop_scope="module")
async def bench(ledger: SqliteLedger, store: WaywardStore) -> AsyncIterator[Bench]:
    bench = Bench(ledger, store)
    await bench.indexer.prepare()
    yield bench
    store.gate.set()
    await bench.settling.stop()
