"""The upkeep on a Qdrant server, which other workers share, and which may lose all data."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from hivemem_runtime.ledger.places import place_of
from hivemem_runtime.ledger.sqlite import SqliteLedger
from hivemem_testing.servers import packaged_qdrant
from hivemem_vectors.own.decisions import physical
from hivemem_vectors.pipeline.decisions.points import names_of, point_name
from hivemem_vectors.stores.qdrant.store import QdrantVectors
from hivemem_vectors.upkeep.endpoints import item_sweep as swept_items
from hivemem_vectors.upkeep.endpoints import vector_sweep as swept_vectors

from ..store.backends import grpc_url
from .bench import COLLECTION, Bench
from .cabinet import NAMESPACE

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(loop_scope="module")
async def served(ledger: SqliteLedger, tmp_path: Path) -> AsyncIterator[Bench]:
    with packaged_qdrant(tmp_path / "server") as server:
        store = QdrantVectors(grpc_url(server.address))
        bench = Bench(ledger, store)
        await bench.indexer.prepare()
        yield bench
        await bench.settling.stop()
        await store.close()


async def test_a_sweep_repairs_both_ways_and_fills_what_was_lost(
    served: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(swept_items, "ITEMS", 7)
    monkeypatch.setattr(swept_items, "POINTS", 5)
    monkeypatch.setattr(swept_vectors, "VECTORS", 3)
    keys = [f"k{number}" for number in range(20)]
    await served.remember(*keys)
    for number in range(8):
        await served.own.put(f"v{number}", 1, number, 0)
    await served.all_settled()
    assert await served.sweep() == (28, 0, 0)
    await served.drop(*(names_of(place_of(NAMESPACE, key), 1, 1)[0] for key in keys[3:9]))
    await served.add(*(point_name(place_of(NAMESPACE, key), 7, 0) for key in keys[:4]))
    await served.drop(*list(await served.points(physical(3)))[:3], collection=physical(3))
    assert await served.sweep(dry_run=True) == (28, 9, 4)
    assert await served.sweep() == (28, 9, 4)
    await served.check(*keys)
    await served.check_vectors("default", 3)
    for collection in (COLLECTION, physical(3)):
        await served.store.drop_collection(collection)
    assert await served.sweep() == (28, 28, 0)
    await served.check(*keys)
    await served.check_vectors("default", 3)
    assert await served.own.nearest(1, 0, 0, top_k=2) == ["v0", "v1"]
