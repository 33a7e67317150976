"""After an outage of the embedder or the store nothing is missing or duplicated; during it every item states its reason
to wait."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest
import pytest_asyncio

from hivemem_contracts.errors import Unavailable
from hivemem_runtime.ledger.sqlite import SqliteLedger
from hivemem_testing.waiting import eventually
from hivemem_vectors.pipeline.entities import ITEM, PENDING, STALE, SYNCED
from hivemem_vectors.stores.edge.store import EdgeVectors
from hivemem_vectors.stores.ports import Point, VectorStore

from ..store.backends import MORTALS, Mortal
from .bench import TENANT, Bench, deleted, erased, long_text, open_ledger, place, put, sweep

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def waits(bench: Bench, key: str, state: str, indexed: int | None) -> None:
    item = await bench.item(key)
    assert (item.state, item.indexed) == (state, indexed)
    assert item.error
    assert item.retry_at is not None
    assert item.attempts >= 1


async def test_an_embedder_that_is_down_leaves_items_to_be_found_by_their_words(bench: Bench) -> None:
    await bench.index(put("old", 1, "older text"))
    bench.embedder.is_down = True
    text = long_text(500, 1)
    await bench.index(put("old", 2, "newer text"), put("new", 1, text))
    await waits(bench, "old", STALE, 1)
    await waits(bench, "new", PENDING, None)
    mirror = await bench.mirror("new")
    assert (mirror.version, mirror.model, mirror.embeddings) == (1, None, None)
    assert len(mirror.texts) == len(mirror.starts) > 1
    assert await bench.announced("new") == []
    health = bench.indexer.embedder_health()
    assert (health.ready, health.detail) == (False, "the tiny embedder is down")
    await bench.check_points()
    bench.embedder.is_down = False
    await bench.retry()
    await bench.check({"old": (2, "newer text"), "new": (1, text)})
    assert await bench.announced("old") == [("synced", 1, 1), ("synced", 2, 2)]
    assert bench.indexer.embedder_health().ready


async def test_new_metadata_needs_no_embedder(bench: Bench) -> None:
    await bench.index(put("a", 1, "text"))
    bench.embedder.is_down = True
    await bench.index(put("a", 2, "text", metadata={"colour": "blue"}))
    await bench.check({"a": (2, "text")})


async def test_while_something_is_left_alone_nothing_is_tried(bench: Bench) -> None:
    bench.embedder.is_down = True
    await bench.index(*(put(f"k{number}", 1, f"text {number}") for number in range(30)))
    calls = bench.embedder.calls
    places = [place(f"k{number}") for number in range(30)]
    assert await bench.indexer.retry(TENANT, places) == 0
    assert bench.embedder.calls == calls
    assert (await bench.item("k0")).attempts == 1
    bench.let_time_pass()
    assert await bench.indexer.retry(TENANT, places) == 30
    assert (await bench.item("k0")).attempts == 2


async def test_a_clock_drains_what_waits(bench: Bench) -> None:
    bench.embedder.is_down = True
    told = {f"k{number}": f"text {number}" for number in range(900)}
    await bench.index(*(put(key, 1, text) for key, text in told.items()))
    bench.embedder.is_down = False
    bench.embedder.embedded.clear()
    bench.let_time_pass()
    clock = bench.clock()

    async def drained() -> bool:
        await clock.step()
        page = await bench.ledger.covered(ITEM, TENANT, "retry", equals={}, limit=1)
        return not page.items

    await eventually(drained, "nothing waits any more")
    await bench.check({key: (1, text) for key, text in told.items()})
    assert len(bench.embedder.embedded) == 900, "each once more"


async def test_newer_versions_come_while_the_embedder_is_down(bench: Bench) -> None:
    bench.embedder.is_down = True
    await bench.index(put("a", 1, "one"), put("b", 1, "one"), put("c", 1, "one"))
    await bench.index(put("a", 2, "two"), deleted("b", 2))
    bench.embedder.is_down = False
    await bench.index(put("c", 2, "two"))
    await bench.retry()
    await bench.check({"a": (2, "two"), "b": (2, None), "c": (2, "two")})
    assert "one" not in bench.embedder.embedded[-2:]


async def test_embeddings_outlive_a_store_that_is_down(
    mortal_bench: Bench, edge: EdgeVectors, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = mortal_bench
    await bench.index(put("old", 1, "older text"))
    embedded = len(bench.embedder.embedded)
    with monkeypatch.context() as broken:
        broken.setattr("hivemem_vectors.stores.edge.process.PROGRAM", "hivemem_vectors.no_such_program")
        assert edge.pid is not None
        os.kill(edge.pid, signal.SIGKILL)
        text = long_text(500, 1)
        await bench.index(put("old", 2, "newer text"), put("new", 1, text))
        await waits(bench, "old", STALE, 1)
        await waits(bench, "new", PENDING, None)
        mirror = await bench.mirror("new")
        assert (mirror.version, mirror.model) == (1, "tiny")
        assert mirror.embeddings is not None
        assert not bench.indexer.store_health().ready
        await bench.retry()
        assert (await bench.item("new")).attempts == 2
    asked = bench.embedder.embedded[embedded:]
    await eventually(lambda: there_again(edge), "the engine is started again")
    await bench.retry()
    await bench.check({"old": (2, "newer text"), "new": (1, text)})
    assert bench.embedder.embedded[embedded:] == asked, "nothing is embedded twice"
    assert bench.indexer.store_health().ready


async def test_what_is_deleted_while_the_store_is_down_is_removed_later(
    mortal_bench: Bench, edge: EdgeVectors, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = mortal_bench
    await bench.index(put("a", 1, "secret"), put("b", 1, "secret"), put("c", 1, "secret"))
    with monkeypatch.context() as broken:
        broken.setattr("hivemem_vectors.stores.edge.process.PROGRAM", "hivemem_vectors.no_such_program")
        assert edge.pid is not None
        os.kill(edge.pid, signal.SIGKILL)
        await bench.index(erased("a", 2, "r1"), erased("b", 2, "r1"), deleted("c", 2))
        await bench.index(erased("a", 2, "r1"))
        for key in "abc":
            item = await bench.item(key)
            assert (item.gone, item.indexed, item.state) == (True, None, SYNCED), "it is not found any more"
            assert item.retry_at is not None
        assert await bench.announced("a") == [("synced", 1, 1), ("synced", 2, 2)]
        await bench.index(put("b", 3, "a new life"))
        await waits(bench, "b", PENDING, None)
        await bench.retry()
        assert (await bench.item("a")).attempts == 2
    await eventually(lambda: there_again(edge), "the engine is started again")
    assert len(await bench.points()) == 3
    await bench.retry()
    removal = await bench.removal("r1")
    assert removal is not None
    assert removal.removed == 2
    await sweep(bench)
    await bench.check({"a": (2, None), "b": (3, "a new life"), "c": (2, None)})
    assert await bench.announced("a") == [("synced", 1, 1), ("synced", 2, 2)]


async def test_points_that_could_not_be_removed_fail_nothing(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    await bench.index(put("a", 1, "one"))

    async def refuse(*args: object) -> None:
        raise Unavailable("not now", retry_after_ms=1)

    with monkeypatch.context() as broken:
        broken.setattr(EdgeVectors, "delete", refuse)
        await bench.index(put("a", 2, "two"))
    item = await bench.item("a")
    assert (item.state, item.indexed, item.error) == (SYNCED, 2, None)
    assert len(await bench.points()) == 2, "that of the older version is one that nobody counts"


async def there_again(store: VectorStore) -> bool:
    try:
        await store.check()
    except Unavailable:
        return False
    return True


@pytest_asyncio.fixture(params=MORTALS, loop_scope="session")
async def mortal(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Mortal]:
    async with MORTALS[request.param](tmp_path) as mortal:
        yield mortal


async def test_a_store_that_is_killed_during_upserts_loses_and_doubles_nothing(
    mortal: Mortal, ledger: SqliteLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store is killed three times, while two workers index versions of the same items."""
    one = Bench(ledger, mortal.store)
    await one.indexer.prepare()
    workers = [one, one.another()]
    keys = [f"k{number}" for number in range(150)]
    upsert = mortal.store.upsert
    killed = asyncio.Event()

    async def upsert_and_die(collection: str, points: Sequence[Point]) -> None:
        task = asyncio.ensure_future(upsert(collection, points))
        if not killed.is_set() and any(point.values["version"] in (2, 6, 10) for point in points):
            killed.set()
            await asyncio.sleep(0)
            mortal.kill()
        await task

    async def write(bench: Bench, versions: range) -> None:
        for version in versions:
            for start in range(0, len(keys), 30):
                await bench.index(*(put(key, version, f"{key} at {version}") for key in keys[start : start + 30]))

    monkeypatch.setattr(mortal.store, "upsert", upsert_and_die)
    for first in (1, 5, 9):
        killed.clear()
        await asyncio.gather(*(write(bench, range(first, first + 4)) for bench in workers))
        assert killed.is_set()
        mortal.start()
        await eventually(lambda: there_again(mortal.store), "the store is there again")
        for bench in workers:
            bench.let_time_pass()
    await eventually(lambda: _drained(one), "all that waited is indexed")
    places = {place(key): key for key in keys}
    page = await ledger.find(ITEM, TENANT, "all", equals={}, limit=1_000)
    assert {places[head.id]: head.value.indexed for head in page.items if head.value} == dict.fromkeys(keys, 12)
    await sweep(one)
    await one.check({key: (12, f"{key} at 12") for key in keys})


async def _drained(bench: Bench) -> bool:
    await bench.retry()
    page = await bench.ledger.covered(ITEM, TENANT, "waiting", equals={}, limit=1)
    return not page.items


async def test_a_ledger_that_is_closed_is_told_to_who_asks(bench: Bench, tmp_path: Path) -> None:
    other = open_ledger(tmp_path / "other")
    await other.open()
    worker = Bench(other, bench.store)
    await other.close()
    with pytest.raises(Unavailable):
        await worker.index(put("a", 1, "one"))
