"""Fixtures for several folders of these tests: an engine in files, and a ledger of the worker."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from hivemem_runtime.ledger.sqlite import SqliteLedger
from hivemem_vectors.stores.edge.store import EdgeVectors
from hivemem_vectors.worker import ENTITIES


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def edge(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[EdgeVectors]:
    """One engine process for all tests of a module, because it takes a while to start."""
    edge = EdgeVectors(tmp_path_factory.mktemp("vectors") / "edge")
    yield edge
    await edge.close()


@pytest_asyncio.fixture(loop_scope="module")
async def ledger(tmp_path: Path) -> AsyncIterator[SqliteLedger]:
    ledger = SqliteLedger(tmp_path / "vectors.sqlite", ENTITIES)
    await ledger.open()
    yield ledger
    await ledger.close()
