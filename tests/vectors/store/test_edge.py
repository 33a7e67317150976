"""The engine's process: its life, and builds of graphs while it answers."""

import asyncio
import os
import signal
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path

import numpy as np
import pytest
import pytest_asyncio
from qdrant_edge import EdgeShard

from hivemem_contracts.errors import Unavailable
from hivemem_testing.waiting import eventually
from hivemem_vectors.stores.edge import generations, shards
from hivemem_vectors.stores.edge.collection import AT_MOST, QUIET_SECONDS, EngineCollection
from hivemem_vectors.stores.edge.frames import Frame, points_frame
from hivemem_vectors.stores.edge.store import EdgeVectors
from hivemem_vectors.stores.ports import Filter, Point, Schema

from .points import DIMENSION, SCHEMA, TENANT, Words, everything, many, point, random_vectors, search, vector

COLLECTION = "edge"
WIDE = 64
MANY = 1_000
"""This number of new points is optimized at once, without waiting for a quiet period."""

OPTIMIZE_AFTER = MANY // AT_MOST


@pytest_asyncio.fixture
async def store(tmp_path: Path) -> AsyncIterator[EdgeVectors]:
    store = EdgeVectors(tmp_path / "edge", optimize_after=OPTIMIZE_AFTER)
    await store.ensure_collection(COLLECTION, Schema(WIDE, "model", SCHEMA.fields))
    yield store
    await store.close()


def runs(pid: int) -> bool:
    """Return whether the process exists and is no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


async def optimized(store: EdgeVectors, points: int) -> None:
    async def holds() -> bool:
        return await store.optimized_points(COLLECTION) >= points

    await eventually(holds, f"graphs of {points} points")


async def fill(store: EdgeVectors, points: list[Point]) -> None:
    for start in range(0, len(points), 500):
        await store.upsert(COLLECTION, points[start : start + 500])


async def test_the_engine_ends_with_the_store(store: EdgeVectors) -> None:
    await store.check()
    pid = store.pid
    assert pid is not None
    await store.close()
    assert store.pid is None
    assert not runs(pid)


async def test_the_engine_ends_with_a_process_that_is_killed(tmp_path: Path) -> None:
    folder, program = tmp_path / "edge", Path(__file__).with_name("owner.py")
    owner = await asyncio.create_subprocess_exec(sys.executable, program, folder, stdout=asyncio.subprocess.PIPE)
    assert owner.stdout is not None
    pid = int(await owner.stdout.readline())
    assert runs(pid)
    owner.kill()
    await owner.wait()
    await eventually(lambda: not runs(pid), "the engine has ended")
    store = EdgeVectors(folder)
    await store.check()
    await store.close()


async def test_a_stopped_engine_holds_up_nobody_for_ever(store: EdgeVectors, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hivemem_vectors.stores.edge.process.CALL_SECONDS", 0.3)
    await store.check()
    stuck = store.pid
    assert stuck is not None
    os.kill(stuck, signal.SIGSTOP)
    with pytest.raises(Unavailable, match="no answer"):
        await store.count(COLLECTION)
    monkeypatch.undo()
    await eventually(lambda: not runs(stuck), "the engine that is stuck is killed")

    async def counts() -> bool:
        try:
            return await store.count(COLLECTION) == 0
        except Unavailable:
            return False

    await eventually(counts, "another one answers")
    assert store.pid != stuck


async def test_a_folder_that_another_store_has_is_unavailable(store: EdgeVectors, tmp_path: Path) -> None:
    await store.check()
    second = EdgeVectors(tmp_path / "edge")
    with pytest.raises(Unavailable, match="another process"):
        await second.check()
    await second.close()


async def test_searches_go_on_while_graphs_are_built_and_nothing_is_lost(store: EdgeVectors) -> None:
    points = many(MANY, dimension=WIDE)
    await fill(store, points)
    # Each round changes points while the next generation is copied and built, however long that takes.
    rounds = 0
    while await store.optimized_points(COLLECTION) == 0:
        rounds += 1
        extra = Point(TENANT, f"extra{rounds}", points[rounds % 100].dense, Words([99], [1.0]), {"version": rounds})
        await store.upsert(COLLECTION, [extra])
        gone = [f"p{rounds - 1}"] if rounds <= MANY // 2 else []
        await store.delete(COLLECTION, TENANT, [f"extra{rounds - 2}", *gone])
        [hit, *_] = await search(store, COLLECTION, Filter(TENANT), dense=points[-1].dense, limit=2)
        assert hit.id == points[-1].id
    left = {point.id for point in points[min(rounds, MANY // 2) :]} | {f"extra{rounds}", f"extra{rounds - 1}"} - {
        "extra0"
    }
    assert set(await everything(store, COLLECTION, page=1_000)) == left
    hits = await search(store, COLLECTION, Filter(TENANT), sparse=Words([99], [1.0]), limit=10)
    assert {hit.id for hit in hits} == left & {f"extra{rounds}", f"extra{rounds - 1}"}


async def test_what_came_while_graphs_were_built_is_in_the_next_ones(tmp_path: Path) -> None:
    some = 500
    store = EdgeVectors(tmp_path / "edge", optimize_after=some // AT_MOST)
    await store.ensure_collection(COLLECTION, Schema(2_048, "model"))  # no graph is built for fewer dimensions
    rows = random_vectors(4 * some, 2_048)
    await fill(store, [Point(TENANT, f"p{number}", row) for number, row in enumerate(rows)])
    # The remaining points are fewer than the threshold of a build.
    await optimized(store, 3 * some + 1)
    await store.close()

    [generation] = (tmp_path / "edge" / COLLECTION).glob("generation-*")
    shard = EdgeShard.load(str(generation))
    assert shard.info().indexed_vectors_count > 3 * some
    shard.close()


def test_graphs_wait_until_it_is_quiet_or_too_much_has_changed(tmp_path: Path) -> None:
    folder = generations.begin(tmp_path, COLLECTION, generations.About(DIMENSION, "model"))
    shards.create_shard(generations.generation(folder, 1), DIMENSION).close()
    generations.finish(tmp_path, COLLECTION)
    collection = EngineCollection(tmp_path / COLLECTION, OPTIMIZE_AFTER, lambda building, stage: None)

    def change(points: list[Point]) -> None:
        fields, data = points_frame(points)
        assert collection.change(Frame({"op": "upsert", **fields}, data))

    def builds_in() -> float | None:
        at = collection.builds_at
        return None if at is None else at - time.monotonic()

    points = many(MANY)
    change(points[: OPTIMIZE_AFTER - 1])
    assert builds_in() is None
    change([points[OPTIMIZE_AFTER]])
    waits = builds_in()
    assert waits is not None
    assert waits <= QUIET_SECONDS
    assert collection.builds_at == pytest.approx(time.monotonic() + QUIET_SECONDS, abs=QUIET_SECONDS / 2)
    change(points)
    waits = builds_in()
    assert waits is not None
    assert waits <= 0
    collection.build()
    assert builds_in() is None
    collection.close()


async def test_a_kill_while_graphs_are_built_loses_nothing(store: EdgeVectors, tmp_path: Path) -> None:
    points = many(MANY, dimension=WIDE)
    await fill(store, points)
    await store.upsert(COLLECTION, [Point(TENANT, "late", vector(1, dimension=WIDE))])
    assert store.pid is not None
    os.kill(store.pid, signal.SIGKILL)

    async def counts() -> bool:
        try:
            return await store.count(COLLECTION) == len(points) + 1
        except Unavailable:
            return False

    await eventually(counts, "all points are there")
    await store.upsert(COLLECTION, [Point(TENANT, "later", vector(1, dimension=WIDE))])
    await optimized(store, MANY)
    assert await store.count(COLLECTION) == len(points) + 2
    kept = [path.name for path in (tmp_path / "edge" / COLLECTION).glob("generation-*")]
    assert kept == ["generation-000002"]


async def test_graphs_are_kept_when_the_store_is_opened_again(store: EdgeVectors, tmp_path: Path) -> None:
    points = many(MANY, dimension=WIDE)
    await fill(store, points)
    await optimized(store, MANY)
    await store.close()
    again = EdgeVectors(tmp_path / "edge")
    assert await again.optimized_points(COLLECTION) == MANY
    query = np.asarray(points[3].dense)
    [hit] = await search(again, COLLECTION, Filter(TENANT), dense=query, limit=1)
    assert hit.id == points[3].id
    await again.close()


async def test_a_collection_can_be_dropped_while_its_graphs_are_built(store: EdgeVectors) -> None:
    await fill(store, many(MANY, dimension=WIDE))
    await store.drop_collection(COLLECTION)
    await store.ensure_collection(COLLECTION, SCHEMA)
    await store.upsert(COLLECTION, [point("one")])
    assert await everything(store, COLLECTION) == ["one"]
