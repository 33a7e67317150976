"""While the index is unavailable, vectors are still stored, acknowledged and found."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
import pytest_asyncio

from hivemem_contracts.errors import Unavailable
from hivemem_runtime.ledger.sqlite import SqliteLedger
from hivemem_testing.servers import packaged_qdrant
from hivemem_testing.waiting import eventually
from hivemem_vectors.own import endpoints as querying
from hivemem_vectors.own import reactions as settling
from hivemem_vectors.own.decisions import physical
from hivemem_vectors.own.entities import PROGRESS
from hivemem_vectors.stores import guarded
from hivemem_vectors.stores.ports import Schema
from hivemem_vectors.stores.qdrant.store import QdrantVectors
from hivemem_vectors.upkeep.reactions.retries import VectorRepair
from hivemem_vectors.worker import ENTITIES

from ..store.backends import grpc_url
from ..wayward import WaywardStore
from .hive import TENANT, Own

pytestmark = pytest.mark.asyncio(loop_scope="module")

Served = tuple[Own, Callable[[], None], Callable[[], None]]
"""A store on a server that can be killed and started."""

Repair = Callable[[], Awaitable[None]]


@pytest.fixture
def repair(own: Own) -> Repair:
    """Run the repair timer as if the waits of the breaker and of unfinished writes were over."""
    repairing = VectorRepair(own.ledger, own.settling, due_microseconds=0)

    async def run() -> None:
        own.forgive()
        await repairing.step()

    return run


async def waiting(own: Own) -> int:
    return await own.ledger.count(PROGRESS, TENANT, "waiting", equals={})


async def test_what_is_stored_while_the_index_is_away_is_found_at_once_and_brought_to_it_later(
    own: Own, store: WaywardStore, repair: Repair
) -> None:
    await own.put("before", 0, 1, 0)
    store.is_away = True
    assert (await own.put("a", 1, 0, 0, metadata={"n": 1}))["version"] == 1
    assert (await own.put("before", 1, 2, 0))["version"] == 2
    assert await own.nearest(1, 0, 0) == ["a", "before"]
    assert await own.nearest(0, 1, 0, top_k=1) == ["before"]
    assert await own.nearest(1, 0, 0, filter={"n": 1}) == ["a"]
    store.is_away = False
    assert await own.versions("a") == []
    await repair()
    assert (await own.versions("a"), await own.versions("before")) == ([1], [2])
    assert await waiting(own) == 0
    assert await own.nearest(1, 0, 0) == ["a", "before"]


async def test_it_is_found_after_a_restart(ledger: SqliteLedger, store: WaywardStore, own: Own, tmp_path: Path) -> None:
    store.is_away = True
    await own.put("a", 1, 0, 0)
    await own.settling.stop()
    await ledger.close()
    again = SqliteLedger(tmp_path / "vectors.sqlite", ENTITIES)
    await again.open()
    try:
        restarted = Own(again, store)
        assert await restarted.nearest(1, 0, 0) == ["a"]
        store.is_away = False
        await VectorRepair(again, restarted.settling, due_microseconds=0).repair(TENANT)
        assert await restarted.versions("a") == [1]
    finally:
        await again.close()
        await ledger.open()


async def test_what_is_deleted_while_the_index_is_away_is_not_found_and_leaves_it_later(
    own: Own, store: WaywardStore, repair: Repair
) -> None:
    await own.put("a", 1, 0, 0)
    await own.put("b", 1, 1, 0)
    store.is_away = True
    assert (await own.delete("a"))["deleted"] is True
    assert await own.nearest(1, 0, 0) == ["b"]
    store.is_away = False
    assert await own.nearest(1, 0, 0) == ["b"]
    assert await own.versions("a") == [1]
    await repair()
    assert await own.versions("a") == []
    assert await waiting(own) == 0


async def test_only_the_last_of_many_changes_reaches_the_index(own: Own, store: WaywardStore, repair: Repair) -> None:
    store.is_away = True
    for number in range(5):
        await own.put("a", 1, number, 0)
        await own.put("b", 1, number, 0)
        await own.delete("b")
    store.is_away = False
    await repair()
    assert (await own.versions("a"), await own.versions("b")) == ([5], [])
    assert store.upserted == 1


async def test_an_index_that_does_not_answer_makes_no_store_slow(
    own: Own, store: WaywardStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await own.put("a", 1, 0, 0)
    monkeypatch.setattr(settling, "PATIENCE_SECONDS", 0.5)
    store.gate.clear()
    began = time.monotonic()
    await own.put("b", 0, 1, 0)
    assert time.monotonic() - began < 5
    began = time.monotonic()
    for number in range(20):
        await own.put(f"c{number}", 0, 1, 1)
    assert time.monotonic() - began < 5
    store.gate.set()

    async def done() -> bool:
        return await waiting(own) == 0

    await eventually(done, "all of them are in the index once it answers")
    assert await own.versions("c19") == [1]


async def test_a_breaker_keeps_calls_from_an_index_that_is_away(own: Own, store: WaywardStore) -> None:
    store.is_away = True
    for number in range(20):
        await own.put(f"a{number}", 1, 0, 0)
        await own.nearest(1, 0, 0)
    assert len(store.calls) < 10
    assert own.settling.is_away


async def test_a_slow_index_is_not_waited_for_by_queries(
    own: Own, store: WaywardStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guarded, "SEARCH_SECONDS", 0.05)
    await own.put("a", 1, 0, 0)
    store.gate.clear()
    assert await own.nearest(1, 0, 0) == ["a"]


async def test_a_large_collection_is_not_compared_with_as_a_whole(
    own: Own, store: WaywardStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(querying, "COMPARED", 3)
    monkeypatch.setattr(querying, "NUMBERS_READ", 6)
    store.is_away = True
    for id in ("a", "b", "c"):
        await own.put(id, 1, 0, 0)
    assert await own.nearest(1, 0, 0) == ["a", "b", "c"]
    await own.put("d", 1, 0, 0)
    with pytest.raises(Unavailable) as refused:
        await own.nearest(1, 0, 0)
    assert refused.value.context["retry_after_ms"] > 0
    await own.put("e", 1, 0, 0, collection="other")
    assert await own.nearest(1, 0, 0, collection="other") == ["e"]


async def test_of_many_that_wait_the_newest_are_found(
    own: Own, store: WaywardStore, monkeypatch: pytest.MonkeyPatch, repair: Repair
) -> None:
    monkeypatch.setattr(querying, "WAITING", 2)
    await own.put("first", 1, 0, 0)
    store.is_away = True
    for id in ("a", "b", "c"):
        await own.put(id, 1, 0, 0)
    store.is_away = False
    own.forgive()
    assert await own.nearest(1, 0, 0) == ["b", "c", "first"]
    await repair()
    assert await own.nearest(1, 0, 0) == ["a", "b", "c", "first"]


async def test_nothing_is_missing_while_a_lost_collection_is_filled_again(own: Own, store: WaywardStore) -> None:
    heard: list[bool] = []
    own.collections.on_lost(lambda: heard.append(True))
    await own.put("a", 1, 0, 0)
    await own.put("b", 0, 1, 0, tenant="other")
    assert await own.collections.lost() == []
    await store.drop_collection(physical(3))
    assert await own.nearest(1, 0, 0) == ["a"]
    assert (heard, await own.collections.lost()) == ([True], [physical(3)])
    for number in range(2):
        await own.put("c", -1, number, 0)
        assert await own.nearest(1, 0, 0) == ["a", "c"]
        assert await own.nearest(1, 0, 0, tenant="other") == ["b"]
    assert await own.versions("a") == []


async def test_a_loss_is_noticed_when_something_is_stored(own: Own, store: WaywardStore) -> None:
    await own.put("a", 1, 0, 0)
    await store.drop_collection(physical(3))
    await own.put("b", 1, 1, 0)
    assert await own.versions("b") == [1]
    assert await own.collections.lost() == [physical(3)]
    assert await own.nearest(1, 0, 0) == ["a", "b"]


async def test_a_loss_is_noticed_after_a_restart(own: Own, ledger: SqliteLedger, store: WaywardStore) -> None:
    await own.put("a", 1, 0, 0)
    await store.drop_collection(physical(3))
    restarted = Own(ledger, store)
    await restarted.put("b", 1, 1, 0)
    assert await restarted.nearest(1, 0, 0) == ["a", "b"]
    await restarted.settling.stop()


async def test_the_clock_leaves_what_was_just_stored_to_whoever_stored_it(own: Own, store: WaywardStore) -> None:
    store.is_away = True
    await own.put("a", 1, 0, 0)
    store.is_away = False
    own.forgive()
    await VectorRepair(own.ledger, own.settling).step()
    assert store.upserted == 0
    await VectorRepair(own.ledger, own.settling, due_microseconds=0).step()
    assert await own.versions("a") == [1]


async def test_a_collection_that_cannot_be_used_keeps_no_other_from_the_index(
    own: Own, store: WaywardStore, repair: Repair
) -> None:
    """Another program has created a collection of its name."""
    store.is_away = True
    for number in range(3):
        await own.put(f"a{number}", 1, 0, collection="two")
        await own.put(f"b{number}", 1, 0, 0)
    store.is_away = False
    await store.ensure_collection(physical(2), Schema(2, "another"))
    await repair()
    assert [await own.versions(f"b{number}") for number in range(3)] == [[1]] * 3
    assert await waiting(own) == 3


@pytest_asyncio.fixture(loop_scope="module")
async def served(tmp_path: Path, ledger: SqliteLedger) -> AsyncIterator[Served]:
    with packaged_qdrant(tmp_path / "server") as server:
        store = QdrantVectors(grpc_url(server.address))
        own = Own(ledger, store)
        yield own, server.kill, server.start
        await own.settling.stop()
        await store.close()


async def test_a_server_that_is_killed_loses_nothing(served: Served) -> None:
    own, kill, start = served
    await own.put("a", 1, 0, 0)
    kill()
    await asyncio.gather(*(own.put(f"b{number}", 1, number, 0) for number in range(20)))
    await own.delete("a")
    assert await own.nearest(1, 0, 0, top_k=3) == ["b0", "b1", "b2"]
    start()
    repairing = VectorRepair(own.ledger, own.settling, due_microseconds=0)

    async def done() -> bool:
        own.forgive()
        await repairing.step()
        return await waiting(own) == 0

    await eventually(done, "all of it has reached the index")
    assert await own.versions("a") == []
    assert [await own.versions(f"b{number}") for number in range(20)] == [[1]] * 20
    assert await own.nearest(1, 0, 0, top_k=3) == ["b0", "b1", "b2"]
