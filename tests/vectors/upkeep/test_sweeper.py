"""Each tenant is swept regularly, by one worker at a time, and at once after a collection was recreated."""

import asyncio
import time
from dataclasses import replace

import pytest

from hivemem_contracts.errors import InvalidRequest, Unavailable
from hivemem_contracts.vectors.replies import SweepPage
from hivemem_runtime.ledger.places import place_of
from hivemem_runtime.ledger.port import Append, Write
from hivemem_testing.waiting import eventually
from hivemem_vectors.own.decisions import physical
from hivemem_vectors.pipeline.decisions.keywords import SCHEME
from hivemem_vectors.pipeline.decisions.points import names_of
from hivemem_vectors.pipeline.endpoints.outdated_words import OutdatedWords
from hivemem_vectors.upkeep.entities import EVERYBODY, SWEEP, Sweep
from hivemem_vectors.upkeep.reactions import sweeper
from hivemem_vectors.upkeep.reactions.sweeper import Sweeper

from .bench import COLLECTION, Bench
from .cabinet import NAMESPACE, TENANT

pytestmark = pytest.mark.asyncio(loop_scope="module")


def sweeper_of(bench: Bench, seconds: float = 0.0) -> Sweeper:
    outdated = OutdatedWords(bench.guarded, COLLECTION)
    return Sweeper(
        bench.ledger, bench.sweeping, bench.collections, outdated, collection=COLLECTION, sweep_seconds=seconds
    )


async def sweep_of(bench: Bench, tenant: str = TENANT) -> Sweep:
    head = await bench.ledger.head(SWEEP, EVERYBODY, tenant)
    assert head is not None
    assert head.value is not None
    return head.value


async def test_all_tenants_are_swept_when_their_time_has_come(bench: Bench) -> None:
    regular = sweeper_of(bench)
    await bench.remember("k1")
    await bench.own.put("v1", 1, 0, 0, tenant="other")
    await regular.step()
    bench.cabinet.put("k1", "anew")
    await regular.step()
    await bench.check("k1")
    assert (await sweep_of(bench)).running is False
    assert (await sweep_of(bench, "other")).running is False


async def test_a_tenant_is_not_swept_before_its_time(bench: Bench) -> None:
    regular = sweeper_of(bench, 3_600)
    await bench.remember("k1")
    for _ in range(3):
        await regular.step()
    assert bench.cabinet.pages == 0


async def test_a_lost_collection_is_filled_at_once(bench: Bench) -> None:
    regular = sweeper_of(bench, 3_600)
    await bench.remember("k1", "k2", "k3")
    before = set(await bench.points())
    await regular.step()
    await bench.store.drop_collection(COLLECTION)
    await bench.remember("k4")
    await regular.step()
    assert set(await bench.points()) > before
    await bench.check("k1", "k2", "k3", "k4")
    assert bench.cabinet.pages == 0
    assert (await sweep_of(bench)).began_at > 0
    assert await bench.collections.lost() == []


async def test_a_collection_that_is_gone_at_the_start_is_filled(bench: Bench) -> None:
    await bench.remember("k1", "k2")
    await bench.store.drop_collection(COLLECTION)
    restarted = Bench(bench.ledger, bench.store, bench.cabinet)
    regular = sweeper_of(restarted, 3_600)
    await restarted.indexer.prepare()
    await regular.step()
    await bench.check("k1", "k2")


async def test_points_of_an_earlier_release_get_the_words_of_this_one_at_once(bench: Bench) -> None:
    regular = sweeper_of(bench, 3_600)
    await bench.remember("k1", "k2")
    await regular.step()
    embedded = len(bench.embedder.embedded)
    [old] = names_of(place_of(NAMESPACE, "k1"), 1, 1)
    await bench.add(old, place=place_of(NAMESPACE, "k1"))
    outdated = OutdatedWords(bench.guarded, COLLECTION)
    assert await outdated.remain(TENANT)
    assert not await outdated.remain("other")

    await sweeper_of(bench, 3_600).step()

    assert {point.values["scheme"] for point in (await bench.points()).values()} == {SCHEME}
    assert not await OutdatedWords(bench.guarded, COLLECTION).remain(TENANT)
    assert len(bench.embedder.embedded) == embedded
    assert not (await sweep_of(bench)).outdated


async def test_lost_vectors_of_users_are_brought_back_at_once(bench: Bench) -> None:
    regular = sweeper_of(bench, 3_600)
    await bench.own.put("v1", 1, 0, 0)
    await bench.all_settled()
    await regular.step()
    await bench.store.drop_collection(physical(3))
    assert await bench.own.nearest(1, 0, 0) == ["v1"]
    assert await bench.collections.is_incomplete(TENANT, physical(3))
    await regular.step()
    await bench.check_vectors("default", 3)
    assert not (await sweep_of(bench)).lost


async def test_a_collection_is_incomplete_until_every_worker_knows_it_is_filled(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweeper, "FRESH_SECONDS", 0.0)
    other = Bench(bench.ledger, bench.store, bench.cabinet)
    regular = sweeper_of(bench, 3_600)
    await bench.remember("k1")
    await regular.step()
    await bench.guarded.drop_collection(COLLECTION)
    await bench.indexer.prepare()
    for each in (bench, other):
        assert await each.collections.is_incomplete(TENANT, COLLECTION)
        assert not await each.collections.is_incomplete(TENANT, physical(3))
    part = bench.sweeping.part

    async def looking(tenant: str, cursor: str | None, dry_run: bool) -> SweepPage:
        assert await bench.collections.lost() == []
        assert await other.collections.is_incomplete(TENANT, COLLECTION)
        return await part(tenant, cursor, dry_run)

    monkeypatch.setattr(bench.sweeping, "part", looking)
    await regular.step()
    for each in (bench, other):
        assert not await each.collections.is_incomplete(TENANT, COLLECTION)
    await bench.check("k1")
    await other.settling.stop()


async def test_a_clock_that_runs_hears_at_once_of_what_is_lost(bench: Bench) -> None:
    regular = sweeper_of(bench, 3_600)
    await bench.remember("k1")
    await bench.store.drop_collection(COLLECTION)
    await regular.start(None)  # type: ignore[arg-type]  # it needs no connection
    try:
        await bench.guarded.drop_collection(COLLECTION)
        await bench.indexer.prepare()

        async def filled() -> bool:
            return len(await bench.points()) == 1

        await eventually(filled, "the point is there again")
    finally:
        await regular.stop()


async def test_a_sweep_that_fails_goes_on_where_it_was(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    regular = sweeper_of(bench)
    await bench.remember("k1")
    asked: list[str | None] = []
    pages = [
        SweepPage(checked=1, missing=0, left_over=0, cursor="a"),
        SweepPage(checked=1, missing=1, left_over=1, cursor=None),
    ]

    async def part(tenant: str, cursor: str | None, dry_run: bool) -> SweepPage:
        asked.append(cursor)
        if len(asked) == 2:
            raise Unavailable("away", retry_after_ms=1)
        return pages[len(asked) > 1]

    monkeypatch.setattr(sweeper, "REST", 0.0)
    monkeypatch.setattr(bench.sweeping, "part", part)
    await regular.step()
    await regular.step()
    assert asked == [None, "a"]
    assert (await sweep_of(bench)).cursor == "a"
    await sweeper_of(bench).step()
    assert len(asked) == 2
    await regular.step()
    assert asked == [None, "a", "a"]
    assert (await sweep_of(bench)).running is False


async def test_a_cursor_of_another_release_begins_anew(bench: Bench) -> None:
    regular = sweeper_of(bench)
    await bench.remember("k1")
    begun = Sweep(1, True, regular.worker, time.time_ns() // 1_000, "not ours")
    await bench.ledger.commit(
        Write(EVERYBODY, "test", SWEEP, TENANT, lambda heads, now: [Append(SWEEP, TENANT, begun)])
    )
    with pytest.raises(InvalidRequest):
        await bench.sweeping.part(TENANT, "not ours", False)
    await regular.step()
    assert (await sweep_of(bench)).running is False
    assert bench.cabinet.pages > 0


async def test_two_workers_share_the_tenants(bench: Bench) -> None:
    one, two = sweeper_of(bench), sweeper_of(bench)
    for tenant in ("a", "b", "c"):
        await bench.own.put("v1", 1, 0, 0, tenant=tenant)
    await one.step()
    await asyncio.gather(one.step(), two.step())
    for tenant in ("a", "b", "c"):
        assert (await sweep_of(bench, tenant)).running is False


async def test_who_was_overtaken_gives_way(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    regular = sweeper_of(bench)
    await bench.remember("k1")
    await regular.step()
    part = bench.sweeping.part

    async def slow(tenant: str, cursor: str | None, dry_run: bool) -> SweepPage:
        taken = replace(await sweep_of(bench), worker="another")
        await bench.ledger.commit(
            Write(EVERYBODY, "test", SWEEP, TENANT, lambda heads, now: [Append(SWEEP, TENANT, taken)])
        )
        return await part(tenant, cursor, dry_run)

    monkeypatch.setattr(bench.sweeping, "part", slow)
    await regular.step()
    assert (await sweep_of(bench)).worker == "another"
    assert (await sweep_of(bench)).running


async def test_a_collection_that_is_new_is_not_taken_for_lost(bench: Bench) -> None:
    regular = sweeper_of(bench, 3_600)
    await bench.remember("k1")
    await regular.step()
    await bench.guarded.prepare(physical(7))
    assert await bench.collections.lost() == []
    await regular.step()
    assert not (await sweep_of(bench)).wanted
    assert bench.cabinet.pages == 0
