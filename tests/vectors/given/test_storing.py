"""Users store vectors, find the nearest ones, and delete them again."""

import asyncio
from typing import Any

import pytest

from hivemem_contracts.errors import InvalidRequest, NotFound
from hivemem_runtime.ledger.sqlite import SqliteLedger
from hivemem_testing.waiting import eventually

from ..wayward import WaywardStore
from .hive import Own

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def settled(own: Own, id: str) -> None:
    async def done() -> bool:
        return not await own.waits(id)

    await eventually(done, f"{id} is settled")


async def test_what_is_stored_is_found_by_the_next_query(own: Own) -> None:
    stored = await own.put("a", 1, 0, 0, metadata={"kind": "fruit", "deep": {"x": [1]}})
    assert stored == {"id": "a", "collection": "default", "version": 1, "duplicate": False}
    await own.put("b", 0, 2, 0)
    answer = await own.ask("query", {"embedding": [3, 1, 0]})
    assert [(item["id"], item["metadata"]) for item in answer["items"]] == [
        ("a", {"kind": "fruit", "deep": {"x": [1]}}),
        ("b", {}),
    ]
    assert answer["items"][0]["score"] == pytest.approx(3 / 10**0.5, abs=1e-5)
    assert answer["items"][1]["score"] == pytest.approx(1 / 10**0.5, abs=1e-5)


async def test_the_index_has_it_when_it_is_answered(own: Own, store: WaywardStore) -> None:
    await own.put("a", 1, 0, 0)
    assert await own.versions("a") == [1]
    await settled(own, "a")
    assert "nearest" not in store.calls


async def test_a_vector_that_is_stored_anew_takes_the_place_of_the_one_before(own: Own) -> None:
    await own.put("a", 1, 0, 0, metadata={"n": 1})
    assert (await own.put("a", 0, 1, 0, metadata={"n": 2}))["version"] == 2
    answer = await own.ask("query", {"embedding": [0, 1, 0]})
    assert [(item["id"], item["score"], item["metadata"]) for item in answer["items"]] == [
        ("a", pytest.approx(1), {"n": 2})
    ]

    async def alone() -> bool:
        return await own.versions("a") == [2]

    await eventually(alone, "the older point is gone")


async def test_a_duplicate_request_answers_the_first_result(own: Own) -> None:
    first = await own.put("a", 1, 0, 0, request="m1")
    assert await own.put("a", 0, 1, 0, request="m2") == {**first, "version": 2}
    assert await own.put("a", 1, 0, 0, request="m1") == {**first, "duplicate": True}
    assert await own.version("a") == 2
    await settled(own, "a")
    assert (await own.ask("query", {"embedding": [0, 1, 0]}))["items"][0]["score"] == pytest.approx(1)


async def test_a_deleted_vector_is_not_found(own: Own) -> None:
    await own.put("a", 1, 0, 0)
    await own.put("b", 1, 1, 0)
    assert await own.delete("a") == {"id": "a", "collection": "default", "deleted": True, "duplicate": False}
    assert await own.nearest(1, 0, 0) == ["b"]
    assert await own.versions("a") == []
    assert (await own.delete("a"))["deleted"] is False
    assert (await own.delete("never"))["deleted"] is False
    assert (await own.delete("a", collection="never"))["deleted"] is False


async def test_late_duplicates_bring_nothing_back(own: Own) -> None:
    await own.put("a", 1, 0, 0, request="m1")
    assert (await own.delete("a", request="m2"))["deleted"] is True
    assert await own.put("a", 1, 0, 0, request="m1") == {
        "id": "a",
        "collection": "default",
        "version": 1,
        "duplicate": True,
    }
    assert await own.nearest(1, 0, 0) == []
    assert await own.put("a", 0, 1, 0, request="m3") == {
        "id": "a",
        "collection": "default",
        "version": 3,
        "duplicate": False,
    }
    assert (await own.delete("a", request="m2"))["deleted"] is True
    assert await own.nearest(0, 1, 0) == ["a"]


async def test_a_deletion_of_nothing_deletes_nothing_when_it_comes_again(own: Own) -> None:
    assert (await own.delete("a", request="m1"))["deleted"] is False
    await own.put("a", 1, 0, 0)
    assert (await own.delete("a", request="m1"))["deleted"] is False
    assert await own.nearest(1, 0, 0) == ["a"]


async def test_the_first_vector_fixes_the_dimension_of_its_collection(own: Own) -> None:
    await own.put("a", 1, 0, 0, collection="small")
    with pytest.raises(InvalidRequest) as refused:
        await own.put("b", 1, 0, collection="small")
    assert refused.value.context == {"field": "embedding", "collection": "small", "expected": 3, "actual": 2}
    assert "small" in str(refused.value)
    with pytest.raises(InvalidRequest) as refused:
        await own.nearest(1, 0, collection="small")
    assert refused.value.context == {"field": "embedding", "collection": "small", "expected": 3, "actual": 2}
    await own.put("b", 1, 0, collection="smaller")
    assert await own.nearest(1, 0, collection="smaller") == ["b"]


async def test_a_refused_first_vector_makes_no_collection(own: Own) -> None:
    with pytest.raises(InvalidRequest):
        await own.put("a", 0, 0, 0)
    with pytest.raises(NotFound) as refused:
        await own.nearest(1, 0, 0)
    assert refused.value.context == {"collection": "default"}


@pytest.mark.parametrize("numbers", [(0.0, 0.0, 0.0), (1e-60, 0.0, 0.0), (1e39, 0.0, 0.0)])
async def test_what_has_no_direction_is_refused(own: Own, numbers: tuple[float, ...]) -> None:
    await own.put("a", 1, 0, 0)
    for ask in (own.put("b", *numbers), own.nearest(*numbers)):
        with pytest.raises(InvalidRequest) as refused:
            await ask
        assert refused.value.context["field"] == "embedding"
    assert await own.nearest(1, 0, 0) == ["a"]


@pytest.mark.parametrize("size", [1e-40, 1e-20, 1e-4, 1e30])
async def test_a_vector_of_any_length_has_a_cosine(own: Own, size: float) -> None:
    await own.put("a", 3 * size, 4 * size, 0)
    await own.put("b", 0, size, size)
    answer = await own.ask("query", {"embedding": [size, 0, 0]})
    assert [(item["id"], item["score"]) for item in answer["items"]] == [
        ("a", pytest.approx(0.6, abs=1e-4)),
        ("b", pytest.approx(0, abs=1e-4)),
    ]


FILTERS: list[tuple[dict[str, Any], list[str]]] = [
    ({}, ["a", "b", "c", "d"]),
    ({"kind": "fruit"}, ["a", "b"]),
    ({"kind": "fruit", "count": 1}, ["a"]),
    ({"count": 1}, ["a", "d"]),
    ({"count": "1"}, ["b"]),
    ({"count": True}, ["c"]),
    ({"fresh": False}, ["d"]),
    ({"kind": "fru"}, []),
    ({"other": "fruit"}, []),
    ({"kind": "x" * 300}, []),
    ({"size": 3}, []),
]


@pytest.mark.parametrize(("matched", "found"), FILTERS)
@pytest.mark.parametrize("away", [False, True])
async def test_metadata_are_filtered_by_in_the_index_and_without_it(
    own: Own, store: WaywardStore, matched: dict[str, Any], found: list[str], away: bool
) -> None:
    await own.put("a", 4, 0, 1, metadata={"kind": "fruit", "count": 1})
    await own.put("b", 3, 0, 1, metadata={"kind": "fruit", "count": "1", "size": 3.5})
    await own.put("c", 2, 0, 1, metadata={"kind": "root", "count": True, "size": {"x": 3}})
    await own.put("d", 1, 0, 1, metadata={"count": 1, "fresh": False, "kind": "x" * 300})
    store.is_away = away
    assert await own.nearest(1, 0, 0, filter=matched) == found


async def test_tenants_and_collections_are_apart(own: Own) -> None:
    await own.put("a", 1, 0, 0)
    await own.put("a", 0, 1, 0, collection="other")
    await own.put("a", 0, 0, 1, tenant="other")
    for tenant, collection, numbers in (
        ("acme", "default", (1, 0, 0)),
        ("acme", "other", (0, 1, 0)),
        ("other", "default", (0, 0, 1)),
    ):
        answer = await own.ask("query", {"embedding": numbers, "collection": collection}, tenant=tenant)
        assert [(item["id"], item["score"]) for item in answer["items"]] == [("a", pytest.approx(1))]
    await own.delete("a")
    assert await own.nearest(1, 1, 1) == []
    assert await own.nearest(1, 1, 1, collection="other") == ["a"]
    assert await own.nearest(1, 1, 1, tenant="other") == ["a"]
    with pytest.raises(NotFound):
        await own.nearest(1, 1, 1, tenant="other", collection="other")


async def test_of_fifty_stores_of_one_id_at_once_the_newest_is_found(
    ledger: SqliteLedger, store: WaywardStore, own: Own
) -> None:
    other = Own(ledger, store)
    workers = [own, other]
    answers = await asyncio.gather(
        *(workers[number % 2].put("a", 1, number, 0, metadata={"n": number}) for number in range(50))
    )
    assert sorted(answer["version"] for answer in answers) == list(range(1, 51))
    newest = next(number for number, answer in enumerate(answers) if answer["version"] == 50)
    (item,) = (await other.ask("query", {"embedding": [1, newest, 0]}))["items"]
    assert (item["metadata"], item["score"]) == ({"n": newest}, pytest.approx(1))
    await settled(own, "a")

    async def alone() -> bool:
        return await own.versions("a") == [50]

    await eventually(alone, "no older point is left")
    await other.settling.stop()


async def test_the_nearest_are_all_found_behind_many_that_are_gone(own: Own, store: WaywardStore) -> None:
    """They were deleted while the index was unavailable, so their points still exist, nearer than all others."""
    await asyncio.gather(*(own.put(f"near{number}", 100, number, 0) for number in range(60)))
    await asyncio.gather(*(own.put(f"far{number}", 1, 100 + number, 0) for number in range(5)))
    store.is_away = True
    await asyncio.gather(*(own.delete(f"near{number}") for number in range(60)))
    store.is_away = False
    own.forgive()
    assert await own.nearest(1, 0, 0, top_k=3) == ["far0", "far1", "far2"]


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"embedding": []}, "embedding"),
    ({"embedding": [1.0] * 8_193}, "embedding"),
    ({"embedding": [1.0], "collection": "Not a name"}, "collection"),
    ({"embedding": ["1"]}, "embedding.0"),
    ({"embedding": [1.0], "id": " "}, "id"),
]


@pytest.mark.parametrize(("fields", "field"), WRONG)
async def test_fields_that_are_wrong_are_named(own: Own, fields: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        await own.ask("store", {"id": "a", **fields})
    assert refused.value.context["field"] == field
