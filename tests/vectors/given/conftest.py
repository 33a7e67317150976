"""Users' own vectors on SQLite and in files."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from hivemem_runtime.ledger.sqlite import SqliteLedger
from hivemem_testing.waiting import DEADLINE_SECONDS
from hivemem_vectors.own import reactions as settling
from hivemem_vectors.own.decisions import physical
from hivemem_vectors.stores.edge.store import EdgeVectors

from ..wayward import WaywardStore
from .hive import Own


@pytest_asyncio.fixture(loop_scope="module")
async def store(edge: EdgeVectors) -> AsyncIterator[WaywardStore]:
    """A vector store that is empty at first."""
    store = WaywardStore(edge)
    yield store
    store.gate.set()
    for collection in (physical(2), physical(3)):
        await edge.drop_collection(collection)


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let answers wait until the index has the vectors, even on a busy machine."""
    monkeypatch.setattr(settling, "PATIENCE_SECONDS", DEADLINE_SECONDS)


@pytest_asyncio.fixture(loop_scope="module")
async def own(ledger: SqliteLedger, store: WaywardStore) -> AsyncIterator[Own]:
    own = Own(ledger, store)
    yield own
    store.gate.set()
    await own.settling.stop()
