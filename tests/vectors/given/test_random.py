"""With two workers and a flaky index, every answer equals a comparison with all acknowledged vectors."""

import random

import numpy as np
import pytest

from hivemem_runtime.ledger.sqlite import SqliteLedger
from hivemem_vectors.own.decisions import exact_cosines, given_vector, physical
from hivemem_vectors.stores.ports import Vector
from hivemem_vectors.upkeep.reactions.retries import VectorRepair

from ..wayward import WaywardStore
from .hive import TENANT, Own

pytestmark = pytest.mark.asyncio(loop_scope="module")

STEPS = 150
TOP_K = 3


def nearest(asked: Vector, kept: dict[str, Vector]) -> list[str]:
    if not kept:
        return []
    scores = dict(zip(kept, exact_cosines(asked, list(kept.values())), strict=True))
    return sorted(kept, key=lambda id: -scores[id])[:TOP_K]


@pytest.mark.parametrize("seed", range(4))
async def test_every_query_sees_everything_acknowledged(
    ledger: SqliteLedger, store: WaywardStore, own: Own, seed: int
) -> None:
    generator = random.Random(seed)
    workers = [own, Own(ledger, store)]
    kept: dict[str, Vector] = {}
    await own.put("first", *_numbers(generator), request="first")
    await own.delete("first")
    for _ in range(STEPS):
        worker, chance = generator.choice(workers), generator.random()
        id = f"v{generator.randrange(8)}"
        if chance < 0.5:
            numbers = _numbers(generator)
            await worker.put(id, *numbers)
            kept[id] = given_vector(numbers)
        elif chance < 0.7:
            assert (await worker.delete(id))["deleted"] is (id in kept)
            kept.pop(id, None)
        elif chance < 0.8:
            store.is_away = not store.is_away
            for each in workers:
                each.forgive()
        elif not store.is_away:
            await VectorRepair(ledger, worker.settling, due_microseconds=0).repair(TENANT)
        asked = _numbers(generator)
        answer = await generator.choice(workers).nearest(*asked, top_k=TOP_K)
        assert answer == nearest(given_vector(asked), kept)
    await _check_the_index(ledger, store, workers, kept)


async def _check_the_index(
    ledger: SqliteLedger, store: WaywardStore, workers: list[Own], kept: dict[str, Vector]
) -> None:
    """Check that the recovered index has the newest version of each vector and nothing else."""
    store.is_away = False
    for worker in workers:
        worker.forgive()
        await VectorRepair(ledger, worker.settling, due_microseconds=0).repair(TENANT)
        await worker.settling.stop()
    for id in [f"v{number}" for number in range(8)]:
        expected = [await workers[0].version(id)] if id in kept else []
        found = await workers[0].versions(id, dimension=3)
        assert found[-1:] == expected, (id, found)
    assert await store.count(physical(3)) >= len(kept)


def _numbers(generator: random.Random) -> list[float]:
    return [float(number) for number in np.round([generator.uniform(-1, 1) for _ in range(3)], 3)]
