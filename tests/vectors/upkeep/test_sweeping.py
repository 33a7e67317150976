"""A sweep finds and repairs any difference, whatever its cause; a dry run only counts it."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from hivemem_contracts.errors import InvalidRequest, Unavailable
from hivemem_runtime.ledger.places import place_of
from hivemem_runtime.ledger.port import Append, Write
from hivemem_runtime.paging import Bookmark
from hivemem_vectors.own.decisions import physical
from hivemem_vectors.own.decisions import point_name as vector_point_name
from hivemem_vectors.own.entities import vector_id
from hivemem_vectors.pipeline.decisions.changes import version_of_event
from hivemem_vectors.pipeline.decisions.points import names_of, point_name
from hivemem_vectors.pipeline.entities import FOLLOWED, ITEM, MIRROR, Followed, Mirror, event_place
from hivemem_vectors.upkeep.endpoints import item_sweep as swept_items
from hivemem_vectors.upkeep.endpoints import memory_sweep as swept_memories
from hivemem_vectors.upkeep.endpoints import sweep as sweeping
from hivemem_vectors.upkeep.endpoints import vector_sweep as swept_vectors

from ..wayward import WaywardStore
from .bench import COLLECTION, Bench, now
from .cabinet import NAMESPACE, TENANT

pytestmark = pytest.mark.asyncio(loop_scope="module")

KEYS = tuple(f"k{number}" for number in range(7))
LONG = "\U0001f9ea" * 250
"""A name of a thousand bytes."""

Damage = Callable[[Bench], Awaitable[None]]


@pytest.fixture(autouse=True)
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(swept_memories, "PAGE", 3)
    monkeypatch.setattr(swept_items, "ITEMS", 3)
    monkeypatch.setattr(swept_items, "POINTS", 5)
    monkeypatch.setattr(swept_vectors, "POINTS", 3)
    monkeypatch.setattr(swept_vectors, "VECTORS", 2)


def place(key: str) -> str:
    return place_of(NAMESPACE, key)


async def points_are_gone(bench: Bench) -> None:
    await bench.drop(*names_of(place("k1"), 1, 1), *names_of(place("k5"), 1, 1))


async def one_of_several_points_is_gone(bench: Bench) -> None:
    await bench.remember("k1", "k5", words=2_000)
    for key in ("k1", "k5"):
        item = await bench.item(key)
        assert item is not None
        assert item.chunks > 2
        await bench.drop(point_name(place(key), 2, 1))


async def the_feed_lost_changes(bench: Bench) -> None:
    bench.cabinet.put("k1", "changed")
    bench.cabinet.put("k5", "changed")


async def the_feed_lost_creations(bench: Bench) -> None:
    for key in ("k1", "k5"):
        told = bench.cabinet.erase(key)
        await bench.tell(told)
        bench.cabinet.put(key, "written anew")


async def embeddings_are_lost_with_points(bench: Bench) -> None:
    await points_are_gone(bench)
    for key in ("k1", "k5"):
        head = await bench.ledger.head(MIRROR, TENANT, place(key))
        assert head is not None
        assert head.value is not None
        await put(bench, Append(MIRROR, place(key), replace(head.value, embeddings=None, model=None)))


async def a_mirror_is_lost_with_points(bench: Bench) -> None:
    await points_are_gone(bench)
    await put(bench, Append(MIRROR, place("k1"), Mirror()))
    await put(bench, Append(MIRROR, place("k5"), Mirror()))


async def put(bench: Bench, *appends: Append[Any, Any]) -> None:
    await bench.ledger.commit(Write(TENANT, "test", appends[0].entity, appends[0].id, lambda heads, now: appends))


MISSING: tuple[Damage, ...] = (
    points_are_gone,
    one_of_several_points_is_gone,
    the_feed_lost_changes,
    the_feed_lost_creations,
    embeddings_are_lost_with_points,
    a_mirror_is_lost_with_points,
)


@pytest.mark.parametrize("damage", MISSING)
async def test_what_is_missing_is_brought_back(bench: Bench, damage: Damage) -> None:
    await bench.remember(*KEYS)
    await damage(bench)
    before = await bench.points()
    assert await bench.sweep(dry_run=True) == (7, 2, 0)
    assert await bench.points() == before
    assert await bench.sweep() == (7, 2, 0)
    await bench.check(*KEYS)
    assert await bench.sweep() == (7, 0, 0)


async def points_of_older_versions_are_left(bench: Bench) -> None:
    await bench.remember("k1", "k5")
    await bench.add(point_name(place("k1"), 1, 0), point_name(place("k5"), 1, 0), point_name(place("k5"), 1, 1))


async def points_of_newer_versions_are_left(bench: Bench) -> None:
    await bench.add(point_name(place("k1"), 9, 0), point_name(place("k5"), 2, 0))


async def points_behind_the_last_chunk_are_left(bench: Bench) -> None:
    await bench.add(point_name(place("k1"), 1, 1), point_name(place("k5"), 1, 7))


async def points_of_nothing_are_left(bench: Bench) -> None:
    await bench.add(point_name(place("never"), 1, 0), "a name that is none of ours")


async def points_of_deleted_memories_are_left(bench: Bench) -> None:
    for key in ("gone1", "gone2"):
        await bench.remember(key)
        await bench.tell(bench.cabinet.delete(key))
        await bench.add(point_name(place(key), 1, 0), point_name(place(key), 2, 0))


LEFT_OVER: tuple[tuple[Damage, int], ...] = (
    (points_of_older_versions_are_left, 3),
    (points_of_newer_versions_are_left, 2),
    (points_behind_the_last_chunk_are_left, 2),
    (points_of_nothing_are_left, 2),
    (points_of_deleted_memories_are_left, 4),
)


@pytest.mark.parametrize(("damage", "points"), LEFT_OVER)
async def test_what_is_left_over_is_removed(bench: Bench, damage: Damage, points: int) -> None:
    await bench.remember(*KEYS)
    await damage(bench)
    before = await bench.points()
    checked = len(bench.cabinet.memories)
    assert await bench.sweep(dry_run=True) == (checked, 0, points)
    assert await bench.points() == before
    assert await bench.sweep() == (checked, 0, points)
    await bench.check(*KEYS)
    assert await bench.sweep() == (checked, 0, 0)


async def test_deletions_that_the_feed_lost_are_made_up_for(bench: Bench) -> None:
    await bench.remember(*KEYS)
    bench.cabinet.delete("k1")
    bench.cabinet.erase("k5")
    bench.cabinet.erase("k6")
    assert await bench.sweep(dry_run=True) == (5, 0, 3)
    assert await bench.sweep() == (5, 0, 3)
    await bench.check("k0", "k2", "k3", "k4")
    assert await bench.sweep() == (5, 0, 0)
    await bench.remember("k5")
    assert await bench.sweep() == (6, 0, 0)
    await bench.check("k0", "k2", "k3", "k4", "k5")


async def test_an_erasure_that_is_still_on_the_feed_is_left_to_it(bench: Bench) -> None:
    """The feed delivers it with its receipt."""
    await bench.remember(*KEYS)
    bench.cabinet.erase("k1")
    bench.feed.waiting = 1
    assert await bench.sweep() == (6, 0, 0)
    await bench.check_points_of("k1")
    bench.feed.waiting = 0
    assert await bench.sweep() == (6, 0, 1)


async def test_what_is_still_on_the_feed_is_left_to_it(bench: Bench) -> None:
    await bench.remember(*KEYS)
    bench.cabinet.put("k1", "just now", at=now())
    bench.cabinet.put("k5", "a while ago", at=now() - 3_600_000_000)
    bench.feed.oldest = now() - 3_700_000_000
    assert await bench.sweep() == (7, 0, 0)
    bench.feed.oldest = None
    assert await bench.sweep() == (7, 1, 0)
    item = await bench.item("k5")
    assert item is not None
    assert item.indexed == 2


async def test_memories_that_are_deleted_and_were_never_heard_of_need_nothing(bench: Bench) -> None:
    bench.cabinet.put("a", "x")
    bench.cabinet.delete("a")
    assert await bench.sweep() == (1, 0, 0)
    assert await bench.item("a") is None


async def test_all_roots_are_swept(bench: Bench) -> None:
    namespaces = ("temp:x", "session:x", "user:x", "user:x:deep", "user:y", "app:x", "project:x")
    for namespace in namespaces:
        for key in ("a", "b"):
            bench.cabinet.put(key, f"{namespace} {key}", namespace=namespace)
    assert await bench.sweep() == (14, 14, 0)
    assert len(await bench.points()) == 14
    for namespace in namespaces:
        bench.cabinet.erase("a", namespace=namespace)
    assert await bench.sweep() == (7, 0, 7)
    assert len(await bench.points()) == 7


async def test_a_lost_collection_is_filled_from_the_mirror(bench: Bench) -> None:
    await bench.remember(*KEYS)
    await bench.remember("long", words=3_000)
    before = {id: point.values for id, point in (await bench.points()).items()}
    await bench.store.drop_collection(COLLECTION)
    assert await bench.sweep(dry_run=True) == (8, 8, 0)
    bench.embedder.is_down = True
    bench.cabinet.is_down = True
    assert await bench.sweep(phase=sweeping.ITEMS) == (0, 8, 0)
    assert {id: point.values for id, point in (await bench.points()).items()} == before


async def test_events_of_sessions_are_swept_from_their_mirrors(bench: Bench) -> None:
    event: dict[str, Any] = {
        "event_id": "e1",
        "sequence": 4,
        "author": "bot",
        "at": "2025-06-15T15:06:40.000000Z",
        "metadata": {},
        "content": "said once",
    }
    await put(bench, Append(FOLLOWED, "s1", Followed(True, since=0)))
    await bench.tell(version_of_event(TENANT, "s1", [], event))
    (name,) = await bench.points()
    assert await bench.sweep() == (1, 0, 0)
    await bench.drop(name)
    assert await bench.sweep() == (1, 1, 0)
    assert list(await bench.points()) == [name]
    await bench.add(point_name(event_place("s1", "e2"), 5, 0))
    assert await bench.sweep() == (1, 0, 1)
    assert list(await bench.points()) == [name]


async def test_tenants_are_apart(bench: Bench) -> None:
    await bench.remember("a")
    assert await bench.sweep(tenant="other") == (0, 0, 0)
    await bench.drop(*names_of(place("a"), 1, 1))
    assert await bench.sweep(tenant="other") == (0, 0, 0)
    assert await bench.points() == {}
    assert await bench.sweep() == (1, 1, 0)


async def test_own_vectors_are_swept_both_ways(bench: Bench, store: WaywardStore) -> None:
    for number in range(5):
        await bench.own.put(f"v{number}", 1, number, 0)
    await bench.own.put("w", 1, 0, collection="small")
    await bench.own.delete("v4")
    await bench.all_settled()
    v1, v2, v4 = (vector_id("default", name) for name in ("v1", "v2", "v4"))
    await bench.drop(vector_point_name(v1, 1), collection=physical(3))
    await bench.drop(vector_point_name(vector_id("small", "w"), 1), collection=physical(2))
    left = [vector_point_name(v2, 7), vector_point_name(v4, 1), vector_point_name(v4, 2), "no name of ours"]
    await bench.add(*left, collection=physical(3), dimension=3)
    await bench.add(vector_point_name(vector_id("small", "x"), 1), collection=physical(2), dimension=2)
    assert await bench.sweep(dry_run=True) == (5, 2, 5)
    assert await bench.sweep() == (5, 2, 5)
    await bench.check_vectors("default", 3)
    await bench.check_vectors("small", 2)
    assert await bench.sweep() == (5, 0, 0)
    await store.drop_collection(physical(3))
    assert await bench.sweep() == (5, 4, 0)
    await bench.check_vectors("default", 3)


async def test_own_vectors_that_wait_are_left_to_the_clock(bench: Bench, store: WaywardStore) -> None:
    await bench.own.put("a", 1, 0, 0)
    store.is_away = True
    await bench.own.put("b", 1, 0, 0)
    store.is_away = False
    bench.own.forgive()
    assert await bench.sweep() == (2, 0, 0)


async def test_a_sweep_goes_on_where_a_part_of_it_ended(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweeping, "PART_SECONDS", 0.0)
    await bench.remember(*KEYS)
    for number in range(5):
        await bench.own.put(f"v{number}", 1, number, 0)
    await bench.all_settled()
    await bench.drop(*names_of(place("k1"), 1, 1))
    await bench.add(point_name(place("never"), 1, 0))
    parts = await bench.parts()
    assert len(parts) > 12
    assert (sum(part.checked for part in parts), sum(part.missing for part in parts)) == (12, 1)
    assert sum(part.left_over for part in parts) == 1
    await bench.check(*KEYS)


async def test_cursors_fit_the_wire_whatever_names_are(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweeping, "PART_SECONDS", 0.0)
    for number in range(20):
        bench.cabinet.put(f"{LONG}{number:02}", "x", namespace=f"user:{LONG}")
    parts = await bench.parts()
    assert all(part.cursor is None or len(part.cursor) <= 4_096 for part in parts)
    assert sum(part.missing for part in parts) == 20
    assert await bench.sweep() == (20, 0, 0)


@pytest.mark.parametrize(
    "forged",
    [("nothing", "", "", ""), ("memories", "other", "", ""), ("vector_points", "x", "", ""), ("points", "", "x", "")],
)
async def test_a_forged_cursor_is_refused(bench: Bench, forged: tuple[str, ...]) -> None:
    cursor = Bookmark("sweep", TENANT).put(*forged)
    with pytest.raises(InvalidRequest):
        await bench.sweeping.part(TENANT, cursor, dry_run=True)


async def test_a_cursor_of_another_tenant_is_refused(bench: Bench) -> None:
    cursor = bench.sweeping.begin_at("other", sweeping.ITEMS)
    with pytest.raises(InvalidRequest):
        await bench.sweeping.part(TENANT, cursor, dry_run=True)


async def test_a_sweep_says_when_it_cannot_go_on(bench: Bench, store: WaywardStore) -> None:
    await bench.remember("a")
    bench.cabinet.is_down = True
    with pytest.raises(Unavailable):
        await bench.sweep()
    bench.cabinet.is_down = False
    store.is_away = True
    with pytest.raises(Unavailable):
        await bench.sweep()


async def test_lost_points_whose_text_must_be_embedded_wait_for_the_embedder(bench: Bench) -> None:
    await bench.remember("k1", "k5")
    await embeddings_are_lost_with_points(bench)
    bench.embedder.is_down = True
    assert await bench.sweep() == (2, 2, 0)
    item = await bench.item("k1")
    assert item is not None
    assert (item.state, item.indexed) == ("pending", None)
    page = await bench.ledger.covered(ITEM, TENANT, "retry", equals={}, limit=10)
    assert len(page.items) == 2
