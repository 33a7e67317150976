"""When the process that holds the points is killed, acknowledged points survive and the rest can be sent again."""

import asyncio
from functools import partial

from hivemem_contracts.errors import Unavailable
from hivemem_testing.waiting import eventually
from hivemem_vectors.stores.ports import Filter, Point, VectorStore

from .backends import Mortal
from .points import SCHEMA, TENANT, Words, everything, many, search, vector

COLLECTION = "killed"
BATCH = 20
BATCHES = 60
KILLS = 3


async def usable(store: VectorStore) -> bool:
    try:
        await store.check()
    except Unavailable:
        return False
    return True


def _some(acknowledged: set[str], count: int) -> bool:
    return len(acknowledged) >= count


async def upsert_until_killed(store: VectorStore, batches: list[list[Point]], acknowledged: set[str]) -> None:
    """Upsert batches until one fails or the last one is stored."""
    for batch in batches:
        try:
            await store.upsert(COLLECTION, batch)
        except Unavailable:
            return
        acknowledged.update(point.id for point in batch)


async def test_acknowledged_points_outlive_kills_during_upserts(mortal: Mortal) -> None:
    store = mortal.store
    await store.ensure_collection(COLLECTION, SCHEMA)
    acknowledged: set[str] = set()
    points = {point.id: point for point in many(BATCH * BATCHES * KILLS)}
    waiting = list(points.values())
    for _ in range(KILLS):
        batches = [waiting[start : start + BATCH] for start in range(0, BATCH * BATCHES, BATCH)]
        before = len(acknowledged)
        writing = asyncio.create_task(upsert_until_killed(store, batches, acknowledged))
        await eventually(partial(_some, acknowledged, before + 3 * BATCH), "some batches are acknowledged")
        mortal.kill()
        await writing
        assert len(acknowledged) < before + BATCH * BATCHES, "it was killed in the middle"
        mortal.start()
        await eventually(lambda: usable(store), "the store is there again")
        assert set(await everything(store, COLLECTION)) >= acknowledged
        waiting = [point for point in points.values() if point.id not in acknowledged]

    while waiting:
        await store.upsert(COLLECTION, waiting[:500])
        waiting = waiting[500:]
    assert sorted(await everything(store, COLLECTION, page=1_000)) == sorted(points), "nothing missing, nothing double"
    sample = points["p7"]
    [hit] = await search(store, COLLECTION, Filter(TENANT), dense=sample.dense, limit=1)
    assert hit.id == "p7"


async def test_acknowledged_deletions_outlive_a_kill(mortal: Mortal) -> None:
    store = mortal.store
    await store.ensure_collection(COLLECTION, SCHEMA)
    await store.upsert(COLLECTION, many(50))
    await store.delete(COLLECTION, TENANT, ["p1", "p2"])
    await store.delete_where(COLLECTION, Filter("nobody"))
    mortal.kill()
    mortal.start()
    await eventually(lambda: usable(store), "the store is there again")
    assert await store.count(COLLECTION) == 48
    hits = await search(store, COLLECTION, Filter(TENANT), sparse=Words([1, 2, 3], [1.0] * 3), limit=5)
    assert [hit.id for hit in hits] == ["p3"]


async def test_what_is_under_way_when_it_is_killed_is_unavailable(mortal: Mortal) -> None:
    store = mortal.store
    await store.ensure_collection(COLLECTION, SCHEMA)
    await store.upsert(COLLECTION, many(500))
    calls = [
        asyncio.create_task(search(store, COLLECTION, Filter(TENANT), dense=vector(1), limit=500)) for _ in range(50)
    ]
    await eventually(lambda: any(call.done() for call in calls), "some have their answer")
    mortal.kill()
    done = await asyncio.gather(*calls, return_exceptions=True)
    failures = [one for one in done if isinstance(one, BaseException)]
    assert all(isinstance(one, Unavailable) for one in failures)
    assert all(len(one) == 500 for one in done if not isinstance(one, BaseException))
    mortal.start()
    await eventually(lambda: usable(store), "the store is there again")
    assert await store.count(COLLECTION) == 500
