"""Stored points are found, replaced and removed."""

import asyncio

import pytest

from hivemem_contracts.errors import InvalidRequest
from hivemem_vectors.stores.ports import (
    POINTS_PER_CALL,
    Between,
    Condition,
    Equal,
    Filter,
    OneOf,
    Point,
    StoredPoint,
    Value,
    Vector,
    VectorStore,
)
from hivemem_vectors.stores.search import FEWEST_SCORED

from .points import TENANT, Words, everything, many, point, search, vector

ALL = Filter(TENANT)


async def test_values_come_back_as_they_were(store: VectorStore, collection: str) -> None:
    values: dict[str, Value] = {
        "version": 2**53,
        "importance": 0.25,
        "place": "a/b\x01k é",
        "prefixes": ["a", "a/b"],
        "pinned": True,
    }
    await store.upsert(collection, [Point(TENANT, "id \x01 /é", vector(1), None, values)])
    page = await store.scroll(collection)
    assert page.points == [StoredPoint(TENANT, "id \x01 /é", values)]
    assert page.next is None
    [hit] = await search(store, collection, ALL, dense=vector(1), limit=1)
    assert (hit.id, hit.values) == ("id \x01 /é", values)


async def test_a_hit_has_the_values_that_were_asked_for(store: VectorStore, collection: str) -> None:
    words = Words([1], [1.0])
    await store.upsert(collection, [point("a", 1, words=words, version=1, place="p"), point("b", 0, 1, version=2)])
    hits = await search(store, collection, ALL, dense=vector(1), sparse=words, limit=2, values=["version", "missing"])
    assert [(hit.id, hit.values) for hit in hits] == [("a", {"version": 1}), ("b", {"version": 2})]
    [hit] = await search(store, collection, ALL, sparse=words, limit=2, values=[])
    assert (hit.id, hit.values) == ("a", {})


async def test_a_search_gives_the_nearest_first_with_both_scores(store: VectorStore, collection: str) -> None:
    points = [
        point("near", 1.0, 0.1, words=Words([7], [1.0])),
        point("far", -1.0, 0.2, words=Words([8], [1.0])),
        point("middle", 0.5, 0.5),
    ]
    await store.upsert(collection, points)
    hits = await search(store, collection, ALL, dense=vector(2.0, 0.2), sparse=Words([8], [1.0]), limit=2)
    assert [hit.id for hit in hits] == ["near", "middle", "far"]
    assert hits[0].dense == pytest.approx(1.0, abs=1e-5)
    assert hits[2].dense is not None
    assert hits[2].dense < 0
    assert [hit.sparse for hit in hits[:2]] == [0.0, 0.0]
    assert hits[2].sparse is not None
    assert hits[2].sparse > 0


async def test_a_vector_may_still_be_under_way(store: VectorStore, collection: str) -> None:
    points = [point("near", 1.0, words=Words([7], [1.0])), point("far", 0.0, 1.0, words=Words([8], [1.0]))]
    await store.upsert(collection, points)
    words = Words([8], [1.0])

    async def later(found: Vector | None) -> Vector | None:
        await asyncio.sleep(0)
        return found

    async def failing() -> Vector | None:
        raise ZeroDivisionError

    for sparse in (words, None):
        at_once = await search(store, collection, ALL, dense=vector(1), sparse=sparse, limit=1)
        assert await search(store, collection, ALL, dense=later(vector(1)), sparse=sparse, limit=1) == at_once
        without = await search(store, collection, ALL, sparse=sparse, limit=1)
        assert await search(store, collection, ALL, dense=later(None), sparse=sparse, limit=1) == without
        with pytest.raises(ZeroDivisionError):
            await search(store, collection, ALL, dense=failing(), sparse=sparse, limit=1)
    with pytest.raises(InvalidRequest, match="dimension"):
        await search(store, collection, ALL, dense=later(vector(1, dimension=3)), sparse=words, limit=1)


async def test_what_is_far_down_by_words_has_no_score_by_them(store: VectorStore, collection: str) -> None:
    count = FEWEST_SCORED + 1
    points = [point(f"p{at}", at - 1.0, 1.0, words=Words([7], [float(count - at)])) for at in range(count)]
    await store.upsert(collection, points)
    hits = await search(store, collection, ALL, dense=vector(1), sparse=Words([7], [1.0]), limit=2)
    by_id = {hit.id: hit.sparse for hit in hits}
    assert set(by_id) == {f"p{at}" for at in (0, 1, count - 2, count - 1)}
    assert by_id[f"p{count - 1}"] == 0.0
    assert all(by_id[f"p{at}"] for at in (0, 1, count - 2))


async def test_a_side_that_is_not_asked_has_no_score(store: VectorStore, collection: str) -> None:
    await store.upsert(collection, [point("one", 1.0, words=Words([7], [1.0])), point("two", 0.5, 1.0)])
    dense = await search(store, collection, ALL, dense=vector(1), limit=5)
    assert [(hit.id, hit.sparse) for hit in dense] == [("one", None), ("two", None)]
    sparse = await search(store, collection, ALL, sparse=Words([7], [1.0]), limit=5)
    assert [(hit.id, hit.dense) for hit in sparse] == [("one", None)]
    assert await search(store, collection, ALL, sparse=Words([], []), limit=5) == []
    assert await search(store, collection, ALL, limit=5) == []


async def test_a_point_of_the_same_id_is_replaced(store: VectorStore, collection: str) -> None:
    await store.upsert(collection, [point("one", 1.0, words=Words([7], [1.0]), version=1, place="x")])
    await store.upsert(collection, [point("one", 0.0, 1.0, version=2)])
    [hit] = await search(store, collection, ALL, dense=vector(0, 1), limit=5)
    assert hit.dense == pytest.approx(1.0, abs=1e-5)
    assert hit.values == {"version": 2}
    assert await search(store, collection, ALL, sparse=Words([7], [1.0]), limit=5) == []


async def test_tenants_do_not_see_each_other(store: VectorStore, collection: str) -> None:
    await store.upsert(collection, [point("one", version=1), point("one", tenant="other", version=2)])
    [hit] = await search(store, collection, Filter("other"), dense=vector(1), limit=5)
    assert hit.values == {"version": 2}
    await store.delete(collection, TENANT, ["one"])
    await store.delete_where(collection, Filter("nobody"))
    assert [found.tenant for found in (await store.scroll(collection)).points] == ["other"]
    assert await everything(store, collection, ALL) == []
    await store.delete_where(collection, Filter("other"))
    assert await store.count(collection) == 0


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        (Equal("place", "x"), {"one"}),
        (Equal("prefixes", "a/b"), {"two", "three"}),
        (Equal("version", 2), {"two"}),
        (Equal("place", "nowhere"), set[str]()),
        (OneOf("place", ["x", "z"]), {"one", "three"}),
        (OneOf("version", [1, 3]), {"one", "three"}),
        (Between("version", below=2), {"one"}),
        (Between("version", at_most=2), {"one", "two"}),
        (Between("importance", above=0.5), {"three"}),
        (Between("importance", at_least=0.5), {"two", "three"}),
        (Between("updated_at", at_least=1_767_225_599_000_001), {"two"}),
        (Between("updated_at", below=1_767_225_599_000_001, or_missing=True), {"one", "three"}),
    ],
)
async def test_filters_apply_to_every_call(
    store: VectorStore, collection: str, condition: Condition, expected: set[str]
) -> None:
    words = Words([7], [1.0])
    points = [
        point("one", words=words, place="x", prefixes=["a"], version=1, updated_at=1_767_225_599_000_000),
        point(
            "two",
            words=words,
            place="y",
            prefixes=["a", "a/b"],
            version=2,
            updated_at=1_767_225_599_000_001,
            importance=0.5,
        ),
        point("three", words=words, place="z", prefixes=["a", "a/b", "a/b/c"], version=3, importance=0.75),
    ]
    await store.upsert(collection, points)
    where = Filter(TENANT, [condition])
    assert {hit.id for hit in await search(store, collection, where, dense=vector(1), limit=5)} == expected
    assert {hit.id for hit in await search(store, collection, where, sparse=words, limit=5)} == expected
    assert set(await everything(store, collection, where)) == expected
    assert await store.count(collection, where) == len(expected)
    await store.delete_where(collection, where)
    assert set(await everything(store, collection)) == {"one", "two", "three"} - expected


async def test_older_versions_of_a_place_are_deleted_by_filter(store: VectorStore, collection: str) -> None:
    await store.upsert(
        collection,
        [point(f"{place}{version}", place=place, version=version) for place in "ab" for version in (1, 2, 3)],
    )
    await store.delete_where(collection, Filter(TENANT, [Equal("place", "a"), Between("version", below=3)]))
    assert sorted(await everything(store, collection)) == ["a3", "b1", "b2", "b3"]


async def test_deleting_what_is_not_there_is_fine(store: VectorStore, collection: str) -> None:
    await store.upsert(collection, [point("one")])
    await store.delete(collection, TENANT, ["one", "missing"])
    await store.delete(collection, TENANT, ["one"])
    await store.delete(collection, TENANT, [])
    await store.upsert(collection, [])
    assert await store.count(collection) == 0


async def test_pages_give_every_point_once(store: VectorStore, collection: str) -> None:
    points = many(250)
    await store.upsert(collection, points)
    found = await everything(store, collection, page=100)
    assert len(found) == 250
    assert set(found) == {point.id for point in points}


async def test_a_whole_call_of_points_is_stored(store: VectorStore, collection: str) -> None:
    await store.upsert(collection, many(POINTS_PER_CALL))
    assert await store.count(collection, ALL) == POINTS_PER_CALL
    assert len(await search(store, collection, ALL, dense=vector(1), limit=POINTS_PER_CALL)) == POINTS_PER_CALL


async def test_many_calls_at_once_all_succeed(store: VectorStore, collection: str) -> None:
    points = many(400)
    await asyncio.gather(
        *[store.upsert(collection, points[start : start + 4]) for start in range(0, 400, 4)],
        *[search(store, collection, ALL, dense=vector(1), limit=5) for _ in range(100)],
    )
    assert await store.count(collection) == 400


async def test_a_cancelled_call_harms_no_other(store: VectorStore, collection: str) -> None:
    await store.upsert(collection, many(100))
    calls = [asyncio.create_task(search(store, collection, ALL, dense=vector(1), limit=5)) for _ in range(10)]
    await asyncio.sleep(0)
    for call in calls[::2]:
        call.cancel()
    done = await asyncio.gather(*calls, return_exceptions=True)
    assert [len(hits) for hits in done if isinstance(hits, list)] == [5] * 5
    assert await store.count(collection) == 100
