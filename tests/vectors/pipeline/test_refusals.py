"""An item that the embedder or the store refuses fails alone, states the reason, and is retried with a back-off."""

import pytest

from hivemem_contracts.errors import InvalidRequest
from hivemem_vectors.pipeline.decisions.drafts import Failure
from hivemem_vectors.pipeline.decisions.item_states import LONGEST_WAIT, LONGEST_WAIT_OF_REFUSED, wait_after
from hivemem_vectors.pipeline.entities import FAILED, SYNCED
from hivemem_vectors.stores.ports import Schema

from .bench import TENANT, Bench, deleted, long_text, put

pytestmark = pytest.mark.asyncio(loop_scope="session")

SECOND = 1_000_000


def texts(count: int, *, bad: dict[int, str]) -> dict[str, str]:
    return {f"k{number}": f"text {number} {bad.get(number, 'good')}" for number in range(count)}


async def states(bench: Bench, keys: dict[str, str]) -> dict[str, str]:
    return {key: (await bench.item(key)).state for key in keys}


@pytest.mark.parametrize("weakness", ["poison", "secret_poison", "not_a_number"])
@pytest.mark.parametrize("bad", [{3}, {0, 7, 8, 49}, set(range(50))], ids=["one", "some", "all"])
async def test_a_poisoned_text_fails_alone(bench: Bench, weakness: str, bad: set[int]) -> None:
    setattr(bench.embedder, weakness, "venom")
    told = texts(50, bad=dict.fromkeys(bad, "venom"))
    await bench.index(*(put(key, 1, text) for key, text in told.items()))
    failed = {f"k{number}" for number in bad}
    assert await states(bench, told) == {key: FAILED if key in failed else SYNCED for key in told}
    await bench.check_points()
    assert len(bench.embedder.embedded) < 50 * 8, "the good ones are not embedded again and again"
    item = await bench.item(min(failed))
    assert (item.indexed, item.attempts) == (None, 1)
    assert item.error is not None
    assert item.error.startswith("InvalidRequest: ")
    assert item.retry_at is not None
    assert bench.indexer.embedder_health().ready


async def test_a_failure_is_announced_once(bench: Bench) -> None:
    bench.embedder.poison = "venom"
    await bench.index(put("a", 1, "some venom"))
    for _ in range(3):
        await bench.retry()
    item = await bench.item("a")
    assert (item.state, item.attempts) == (FAILED, 4)
    assert await bench.announced("a") == [("failed", 1, 1)]
    bench.embedder.poison = None
    await bench.retry()
    await bench.check({"a": (1, "some venom")})
    assert await bench.announced("a") == [("failed", 1, 1), ("synced", 2, 1)]


async def test_a_refused_version_leaves_the_older_one_where_it_is(bench: Bench) -> None:
    await bench.index(put("a", 1, "good"))
    bench.embedder.poison = "venom"
    await bench.index(put("a", 2, "venom"))
    item, mirror = await bench.item("a"), await bench.mirror("a")
    assert (item.heard, item.indexed, item.state) == (2, 1, FAILED)
    assert (mirror.version, mirror.texts, mirror.embeddings) == (2, ["venom"], None)
    await bench.check_points()
    await bench.index(put("a", 3, "better"))
    await bench.check({"a": (3, "better")})
    assert await bench.announced("a") == [("synced", 1, 1), ("failed", 2, 2), ("synced", 3, 3)]


async def test_a_refused_one_that_is_deleted_is_done(bench: Bench) -> None:
    bench.embedder.poison = "venom"
    await bench.index(put("a", 1, "venom"))
    await bench.index(deleted("a", 2))
    await bench.retry()
    await bench.check({"a": (2, None)})


async def test_one_chunk_that_is_refused_fails_its_text_and_no_other(bench: Bench) -> None:
    bench.embedder.poison = "venom"
    long = long_text(500, 3)
    told = {"a": long, "b": f"{long} venom {long_text(300, 4)}", "c": long_text(400, 5)}
    await bench.index(*(put(key, 1, text) for key, text in told.items()))
    assert await states(bench, told) == {"a": SYNCED, "b": FAILED, "c": SYNCED}
    await bench.check_points()


async def test_another_dimension_than_promised_fails_all_until_it_is_right_again(bench: Bench) -> None:
    bench.embedder.answers_another_dimension = True
    told = texts(20, bad={})
    await bench.index(*(put(key, 1, text) for key, text in told.items()))
    assert set((await states(bench, told)).values()) == {FAILED}
    assert bench.embedder.calls == 1
    assert await bench.points() == {}
    health = bench.indexer.embedder_health()
    assert not health.ready
    assert health.detail is not None
    bench.embedder.answers_another_dimension = False
    await bench.retry()
    await bench.check({key: (1, text) for key, text in told.items()})
    assert bench.indexer.embedder_health().ready


async def test_what_the_store_refuses_fails_alone(bench: Bench) -> None:
    told = {"a": "good", "b": "too large a number", "c": "good as well"}
    await bench.index(put("a", 1, told["a"]), put("b", 1, told["b"], importance=float("inf")), put("c", 1, told["c"]))
    assert await states(bench, told) == {"a": SYNCED, "b": FAILED, "c": SYNCED}
    await bench.check_points()
    assert bench.indexer.store_health().ready


async def test_a_collection_of_another_model_is_refused_by_name(bench: Bench) -> None:
    await bench.store.drop_collection(bench.collection)
    await bench.store.ensure_collection(bench.collection, Schema(16, "of-others"))
    another = bench.another()
    with pytest.raises(InvalidRequest, match="of-others"):
        await another.indexer.prepare()
    await another.index(put("a", 1, "one"))
    item = await bench.item("a")
    assert item.state == FAILED
    assert "of-others" in (item.error or "")
    assert not another.indexer.store_health().ready
    assert "of-others" in (another.indexer.store_health().detail or "")


async def test_a_collection_that_is_lost_is_made_again(bench: Bench) -> None:
    await bench.index(put("a", 1, "one"))
    await bench.store.drop_collection(bench.collection)
    await bench.index(put("b", 1, "two"))
    assert [(await bench.item(key)).state for key in "ab"] == [SYNCED, SYNCED]
    assert len(await bench.points(TENANT)) == 1
    bench.embedder.embedded.clear()
    await bench.indexer.take_up([put("a", 2, "one")])
    await bench.check({"a": (2, "one"), "b": (1, "two")})
    assert bench.embedder.embedded == []


async def test_what_was_refused_waits_longer_and_longer_what_is_down_never_long() -> None:
    refused, down = Failure("no", refused=True), Failure("down", refused=False)
    assert [wait_after(attempts, refused) for attempts in (1, 2, 3)] == [SECOND, 2 * SECOND, 4 * SECOND]
    assert wait_after(1_000, refused) == LONGEST_WAIT_OF_REFUSED == 300 * SECOND
    assert [wait_after(attempts, down) for attempts in (1, 4, 5, 900)] == [
        SECOND,
        8 * SECOND,
        LONGEST_WAIT,
        LONGEST_WAIT,
    ]
    assert wait_after(1, down._replace(wait=3 * SECOND)) == 3 * SECOND
    assert wait_after(1, down._replace(wait=3_600 * SECOND)) == LONGEST_WAIT
    assert wait_after(1, refused._replace(jitter=1.25)) == SECOND * 5 // 4
