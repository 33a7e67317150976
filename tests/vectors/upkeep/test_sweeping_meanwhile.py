"""A sweep runs during writes to everything, and removes nothing that is needed."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence

import pytest

from hivemem_runtime.ledger.places import place_of
from hivemem_testing.waiting import eventually
from hivemem_vectors.pipeline.decisions.changes import ItemVersion
from hivemem_vectors.pipeline.decisions.points import names_of
from hivemem_vectors.upkeep.decisions import Tally
from hivemem_vectors.upkeep.endpoints.item_sweep import ItemSweep

from ..wayward import WaywardStore
from .bench import COLLECTION, Bench
from .cabinet import NAMESPACE, TENANT

pytestmark = pytest.mark.asyncio(loop_scope="module")

PLACE = place_of(NAMESPACE, "k1")


async def test_points_that_come_to_be_wanted_between_two_looks_stay(bench: Bench, store: WaywardStore) -> None:
    await bench.remember("k1")
    told = bench.cabinet.put("k1", "anew")
    await bench.add(*names_of(PLACE, 2, 1))
    looking = patient(bench, 0.5)
    store.calls.clear()
    sweep = asyncio.create_task(looking.points(TENANT, None, dry_run=False))
    await eventually(lambda: "scroll" in store.calls, "the first look is taken")
    await bench.tell(told)
    assert await sweep == (Tally(), None)
    await bench.check("k1")


def patient(bench: Bench, look_seconds: float) -> ItemSweep:
    return ItemSweep(
        bench.ledger,
        bench.guarded,
        bench.indexer,
        collection=COLLECTION,
        look_seconds=look_seconds,
    )


async def test_points_that_come_to_be_wanted_behind_the_last_look_are_brought_back(
    bench: Bench, store: WaywardStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await bench.remember("k1")
    told = bench.cabinet.put("k1", "anew")
    await bench.add(*names_of(PLACE, 2, 1))
    before(store, monkeypatch, "delete", lambda: bench.tell(told))
    await bench.sweep()
    await bench.check("k1")


def before(store: WaywardStore, monkeypatch: pytest.MonkeyPatch, call: str, act: Callable[[], Awaitable[None]]) -> None:
    """Run something once, right before a call of the store."""
    does, done = getattr(store, call), list[bool]()

    async def interrupted(*arguments: object) -> None:
        if not done:
            done.append(True)
            await act()
        await does(*arguments)

    monkeypatch.setattr(store, call, interrupted)


async def test_what_is_restored_too_late_is_removed_again(
    bench: Bench, store: WaywardStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before the missing points are restored, a newer version arrives and the points of the older one are removed."""
    await bench.remember("k1")
    await bench.drop(*names_of(PLACE, 1, 1))
    told = bench.cabinet.put("k1", "anew")
    before(store, monkeypatch, "upsert", lambda: bench.tell(told))
    assert await bench.swept_items.items(TENANT, "", dry_run=False) == (Tally(missing=1), None)
    await bench.check("k1")


async def test_what_changes_while_the_store_is_asked_is_not_taken_for_lost(
    bench: Bench, store: WaywardStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await bench.remember("k1")
    told = bench.cabinet.put("k1", "anew")
    store.calls.clear()
    scroll = store.scroll

    async def late(*arguments: object, **options: object) -> object:
        await bench.tell(told)
        return await scroll(*arguments, **options)  # type: ignore[arg-type]  # as they came

    monkeypatch.setattr(store, "scroll", late)
    assert await bench.swept_items.items(TENANT, "", dry_run=False) == (Tally(), None)
    monkeypatch.undo()
    await bench.check("k1")


async def test_a_memory_that_was_just_written_is_not_taken_for_erased(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was indexed after its page of memories had been read."""
    await bench.remember("k1", "k3")
    page = bench.cabinet.page

    async def early(*arguments: object, **options: object) -> object:
        found = await page(*arguments, **options)  # type: ignore[arg-type]  # as they came
        if bench.cabinet.pages == 3:
            await bench.remember("k2")
        return found

    monkeypatch.setattr(bench.cabinet, "page", early)
    assert await bench.sweep() == (2, 0, 0)
    await bench.check("k1", "k2", "k3")


KEYS = [f"k{number}" for number in range(12)]


@pytest.mark.parametrize("seed", [1, 2])
async def test_sweeps_among_random_writes_take_nothing_away(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    generator = random.Random(seed)
    monkeypatch.setattr(bench.swept_items, "_look_seconds", 1.0)
    await bench.remember(*KEYS)
    writing = True

    async def write(keys: Sequence[str]) -> None:
        for number in range(40):
            key = generator.choice(keys)
            await bench.tell(*_something(bench, key, number, generator))
            own = f"v{key}"
            if generator.random() < 0.3:
                await bench.own.delete(own)
            else:
                await bench.own.put(own, 1, number + 1, 0)

    async def sweep() -> None:
        while writing:
            await bench.sweep()

    sweeping = asyncio.create_task(sweep())
    await asyncio.gather(*(write(KEYS[start::4]) for start in range(4)))
    writing = False
    await sweeping
    living = [key for key in KEYS if place_of(NAMESPACE, key) in bench.cabinet.memories]
    living = [key for key in living if not bench.cabinet.memories[place_of(NAMESPACE, key)]["deleted"]]
    await bench.all_settled()
    checked, missing, left_over = await bench.sweep(dry_run=True)
    assert (missing, left_over) == (0, 0), checked
    await bench.check(*living)
    await bench.check_vectors("default", 3)


def _something(bench: Bench, key: str, number: int, generator: random.Random) -> list[ItemVersion]:
    """Change a memory, and return its change on the feed."""
    chance, known = generator.random(), place_of(NAMESPACE, key) in bench.cabinet.memories
    if known and chance < 0.2:
        return [bench.cabinet.delete(key)]
    if known and chance < 0.3:
        return [bench.cabinet.erase(key)]
    return [bench.cabinet.put(key, f"{key} for the time {number}")]
