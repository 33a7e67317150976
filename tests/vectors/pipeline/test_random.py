"""With changes in any order, repeated, on any worker, and with failures, the index ends with the newest version of each
item and nothing else."""

import asyncio
import random
from typing import NamedTuple

import pytest

from hivemem_contracts.errors import Unavailable
from hivemem_vectors.pipeline.decisions.changes import ItemVersion

from .bench import Bench, deleted, erased, long_text, put, sweep

pytestmark = pytest.mark.asyncio(loop_scope="session")

KEYS = 12
MOST_VERSIONS = 8
RECEIPTS = 3


class History(NamedTuple):
    told: list[ItemVersion]
    newest: dict[str, tuple[int, str | None]]
    erased: dict[str, int]


def history(chance: random.Random) -> History:
    """Draw the history of some memories; a deletion or an erasure is followed by a new life, or by nothing."""
    made = History([], {}, {})
    for number in range(KEYS):
        key, text = f"k{number}", ""
        for version in range(1, chance.randint(1, MOST_VERSIONS) + 1):
            kind = chance.random()
            if kind < 0.15:
                made.told.append(deleted(key, version))
            elif kind < 0.3:
                receipt = f"r{chance.randrange(RECEIPTS)}"
                made.erased[receipt] = made.erased.get(receipt, 0) + 1
                made.told.append(erased(key, version, receipt))
            else:
                if kind < 0.8 or not text:
                    text = chance.choice(["", "short", long_text(chance.randint(1, 400), chance.randrange(1_000))])
                made.told.append(put(key, version, text, metadata={"version": version}))
            made.newest[key] = (version, None if kind < 0.3 else text)
    return made


async def deliver(workers: list[Bench], told: list[ItemVersion], chance: random.Random) -> None:
    """Deliver in batches to the workers in turn; some are cancelled midway, and their batches are delivered again."""
    queues: list[list[list[ItemVersion]]] = [[] for _ in workers]
    while told:
        size = chance.randint(1, 12)
        chance.choice(queues).append(told[:size])
        told = told[size:]
    again: list[ItemVersion] = []

    async def work(bench: Bench, batches: list[list[ItemVersion]]) -> None:
        for batch in batches:
            indexing = asyncio.ensure_future(bench.indexer.take_up(batch))
            if chance.random() < 0.2:
                for _ in range(chance.randint(0, 40)):
                    await asyncio.sleep(0)
                indexing.cancel()
                again.extend(batch)
            await asyncio.gather(indexing, return_exceptions=True)
            bench.embedder.is_down = chance.random() < 0.2

    await asyncio.gather(*map(work, workers, queues))
    for bench in workers:
        bench.embedder.is_down = False
        bench.let_time_pass()
    await workers[0].index(*again)


@pytest.mark.parametrize("seed", range(8))
async def test_two_workers_end_with_exactly_the_newest_versions(bench: Bench, seed: int) -> None:
    chance = random.Random(seed)
    made = history(chance)
    told = [*made.told, *chance.choices(made.told, k=len(made.told) // 2)]
    chance.shuffle(told)
    workers = [bench, bench.another()]
    await deliver(workers, told, chance)
    for _ in range(3):
        await bench.retry()
    await sweep(bench)
    await bench.check(made.newest)
    for receipt, count in made.erased.items():
        removal = await bench.removal(receipt)
        assert removal is not None
        assert removal.removed == count
    for key, (version, _) in made.newest.items():
        announced = await bench.announced(key)
        assert [number for _, number, _ in announced] == list(range(1, len(announced) + 1))
        assert announced[-1][::2] == ("synced", version)


async def test_in_its_order_every_erasure_is_counted(bench: Bench) -> None:
    made = history(random.Random(99))
    for start in range(0, len(made.told), 7):
        batch = made.told[start : start + 7]
        await asyncio.gather(bench.index(*batch), bench.another().index(*batch))
    await bench.check(made.newest)
    for receipt, count in made.erased.items():
        removal = await bench.removal(receipt)
        assert removal is not None
        assert removal.removed == count


async def test_a_worker_that_is_stopped_in_the_middle_is_taken_over_from(bench: Bench) -> None:
    """The worker is stopped at each of its await points."""
    text = long_text(300, 7)
    for steps in range(0, 60, 3):
        key = f"k{steps}"
        told = [put(key, 1, text), put(f"{key}-gone", 1, "one")]
        await bench.index(put(key, 0, "before"), put(f"{key}-gone", 0, "zero"))
        indexing = asyncio.ensure_future(bench.index(*told, deleted(f"{key}-gone", 2)))
        for _ in range(steps):
            await asyncio.sleep(0)
        indexing.cancel()
        await asyncio.gather(indexing, return_exceptions=True)
        await bench.another().index(*told, deleted(f"{key}-gone", 2))
    expected: dict[str, tuple[int, str | None]] = {}
    for steps in range(0, 60, 3):
        expected |= {f"k{steps}": (1, text), f"k{steps}-gone": (2, None)}
    await sweep(bench)
    await bench.check(expected)


async def test_a_ledger_that_is_full_is_told_to_who_asks(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(write: object) -> None:
        raise Unavailable("the ledger is down", retry_after_ms=1)

    with monkeypatch.context() as broken:
        broken.setattr(bench.ledger, "commit", refuse)
        with pytest.raises(Unavailable, match="the ledger is down"):
            await bench.index(*(put(f"k{number}", 1, "text") for number in range(300)))
        with pytest.raises(Unavailable, match="the ledger is down"):
            await bench.index(deleted("k1", 1))
    await bench.index(*(put(f"k{number}", 1, "text") for number in range(300)))
    await bench.check({f"k{number}": (1, "text") for number in range(300)})
