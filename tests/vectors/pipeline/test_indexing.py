"""When indexing returns, the index has exactly the newest version of each announced memory."""

import asyncio
from datetime import UTC, datetime

import pytest

from hivemem_contracts.errors import InvalidRequest, Unavailable
from hivemem_contracts.identifiers import microseconds_from_time
from hivemem_vectors.pipeline.decisions.changes import version_of_change, version_of_memory
from hivemem_vectors.pipeline.decisions.points import METADATA_FIELDS, point_name

from .bench import TENANT, Bench, change, deleted, erased, long_text, memory, omitted, place, put

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_a_memory_is_found_at_its_version(bench: Bench) -> None:
    await bench.index(put("a", 1, "likes green tea"), put("b", 1, {"text": "hates", "more": ["coffee"]}))
    await bench.check({"a": (1, "likes green tea"), "b": (1, "hates\ncoffee")})
    assert await bench.announced("a") == [("synced", 1, 1)]


async def test_a_newer_version_takes_the_place_of_the_older_one(bench: Bench) -> None:
    await bench.index(put("a", 1, "likes green tea"))
    await bench.index(put("a", 2, "likes black tea"))
    await bench.check({"a": (2, "likes black tea")})
    assert await bench.announced("a") == [("synced", 1, 1), ("synced", 2, 2)]


async def test_versions_in_the_wrong_order_end_with_the_newest(bench: Bench) -> None:
    await bench.index(put("a", 3, "three"))
    await bench.index(put("a", 1, "one"), put("a", 2, "two"))
    await bench.index(put("b", 1, "one"), put("b", 3, "three"), put("b", 2, "two"))
    await bench.check({"a": (3, "three"), "b": (3, "three")})
    assert await bench.announced("a") == [("synced", 1, 3)]


async def test_the_same_again_changes_nothing(bench: Bench) -> None:
    for _ in range(3):
        await bench.index(put("a", 1, "one"), put("a", 1, "one"))
    await bench.check({"a": (1, "one")})
    assert await bench.announced("a") == [("synced", 1, 1)]
    assert bench.embedder.embedded == ["one"]


async def test_what_is_deleted_is_not_found_and_does_not_come_back(bench: Bench) -> None:
    await bench.index(put("a", 1, "one"))
    await bench.index(deleted("a", 2))
    await bench.index(put("a", 1, "one"))
    await bench.check({"a": (2, None)})
    assert await bench.announced("a") == [("synced", 1, 1), ("synced", 2, 2)]
    await bench.index(put("a", 3, "three"))
    await bench.check({"a": (3, "three")})


async def test_a_deletion_that_comes_first_is_a_fence(bench: Bench) -> None:
    await bench.index(deleted("a", 2))
    await bench.index(put("a", 1, "one"))
    await bench.index(deleted("a", 2))
    await bench.check({"a": (2, None)})
    assert await bench.announced("a") == [("synced", 1, 2)]


async def test_each_erased_memory_is_counted_once_for_its_receipt(bench: Bench) -> None:
    await bench.index(put("a", 1, "one"), put("b", 1, "one"), put("c", 1, "one"))
    await bench.index(erased("a", 2, "r1"), erased("b", 2, "r1"), erased("c", 2, "r2"), erased("never", 1, "r1"))
    counts = [await bench.removal("r1"), await bench.removal("r2")]
    assert [(found.removed, found.confirmed) for found in counts if found is not None] == [(3, False), (1, False)]
    await bench.index(erased("a", 2, "r1"), erased("b", 2, "r1"), put("a", 1, "one"))
    await bench.check({"a": (2, None), "b": (2, None), "c": (2, None), "never": (1, None)})
    again = await bench.removal("r1")
    assert again is not None
    assert again.removed == 3


async def test_an_erasure_counts_where_something_newer_is_known_by_then(bench: Bench) -> None:
    await bench.index(put("a", 1, "one"), put("b", 1, "one"))
    await bench.index(put("a", 1, "one"), erased("a", 2, "r1"), put("a", 3, "three"))
    await bench.index(put("b", 3, "three"))
    await bench.index(erased("b", 2, "r1"))
    await bench.index(erased("b", 2, "r1"), erased("a", 2, "r1"), erased("b", 4, "r2"), put("b", 5, "five"))
    await bench.check({"a": (3, "three"), "b": (5, "five")})
    counts = [await bench.removal("r1"), await bench.removal("r2")]
    assert [found.removed for found in counts if found is not None] == [2, 1]


async def test_nothing_of_an_erased_text_stays_in_the_mirror(bench: Bench) -> None:
    await bench.index(put("a", 1, "a secret"))
    await bench.index(erased("a", 2))
    mirror = await bench.mirror("a")
    assert (mirror.version, mirror.texts, mirror.embeddings, mirror.fields) == (None, [], None, {})


async def test_a_memory_is_indexed_by_the_texts_that_it_names_or_not_at_all(bench: Bench) -> None:
    await bench.index(put("a", 1, "the value", metadata={"text": "of the metadata"}, index=["one", "two words"]))
    await bench.check({"a": (1, "one\x1etwo words")})
    assert (await bench.mirror("a")).texts == ["one", "two words"]
    await bench.index(put("a", 2, "the value", index=False))
    await bench.check({"a": (2, "")})
    assert await bench.points() == {}
    await bench.index(put("a", 3, "the value", index=None))
    await bench.check({"a": (3, "the value")})


async def test_new_metadata_alone_costs_no_embedding(bench: Bench) -> None:
    text = long_text(600, 1)
    await bench.index(put("a", 1, text))
    embedded = len(bench.embedder.embedded)
    await bench.index(put("a", 2, text, metadata={"colour": "blue"}, importance=0.5))
    await bench.check({"a": (2, text)})
    assert len(bench.embedder.embedded) == embedded > 1
    points = await bench.points()
    assert all(point.values["metadata"] == ['colour="blue"'] for point in points.values())


async def test_of_a_longer_text_only_what_is_new_is_embedded(bench: Bench) -> None:
    text = long_text(600, 1)
    await bench.index(put("a", 1, text))
    before = set(bench.embedder.embedded)
    await bench.index(put("a", 2, text + " and something at the end"))
    await bench.check({"a": (2, text + " and something at the end")})
    assert 0 < len(set(bench.embedder.embedded) - before) <= 2


async def test_an_embedding_of_another_model_is_not_used(bench: Bench) -> None:
    await bench.index(put("a", 1, "one"))
    bench.embedder.model = "another"
    await bench.index(put("a", 2, "one"))
    assert bench.embedder.embedded == ["one", "one"]


async def test_a_long_text_is_found_in_all_of_its_chunks(bench: Bench) -> None:
    text = long_text(40_000, 2)[:199_000]
    await bench.index(put("long", 1, text), put("short", 1, "short"))
    assert (await bench.item("long")).chunks > 200
    await bench.check({"long": (1, text), "short": (1, "short")})
    await bench.index(put("long", 2, text[:3_000]))
    await bench.check({"long": (2, text[:3_000]), "short": (1, "short")})


async def test_what_has_no_text_is_done_and_nothing_of_it_is_found(bench: Bench) -> None:
    await bench.index(put("a", 1, {"number": 7}), put("b", 1, "text"))
    await bench.index(put("b", 2, ""))
    await bench.check({"a": (1, ""), "b": (2, "")})
    assert await bench.points() == {}


async def test_points_say_what_filters_look_at(bench: Bench) -> None:
    soon = datetime(2031, 1, 2, 3, 4, 5, 678_901, UTC)
    many = {f"name{number}": number for number in range(METADATA_FIELDS)}
    metadata = {"float": 1.5, "list": [1], "long": "x" * 300, "yes": True, "none": None, **many}
    await bench.index(
        put("a", 3, "text", memory_type="episodic", importance=1, metadata=metadata, expires_at="2031-01-02T03:04:05Z"),
        put("b", 3, "text", valid_from="2031-01-02T03:04:05.678901Z", valid_to="2031-01-02T03:04:05.678901+00:00"),
    )
    points = await bench.points()
    first = points[point_name(place("a"), 3, 0)].values
    assert first["memory_type"] == "episodic"
    assert first["created_by"] == "bot"
    assert first["importance"] == 1.0
    assert first["below"] == ["user", "user:alice"]
    assert first["expires_at"] == microseconds_from_time(soon.replace(microsecond=0))
    assert first["metadata"] == ["yes=true", *(f"name{number}={number}" for number in range(METADATA_FIELDS - 1))]
    second = points[point_name(place("b"), 3, 0)].values
    assert second["valid_from"] == second["valid_to"] == microseconds_from_time(soon)
    assert "expires_at" not in second
    await bench.check_points()


async def test_a_value_that_was_left_out_is_read(bench: Bench) -> None:
    bench.kept.living["user:alice", "a"] = memory("a", 4, "newer than what was told")
    bench.kept.living["user:alice", "b"] = memory("b", 1, "of old")
    await bench.index(omitted("a", 3), put("c", 1, "told"), omitted("gone", 1))
    await bench.check({"a": (4, "newer than what was told"), "c": (1, "told")})
    await bench.index(omitted("a", 3))
    assert len(bench.kept.asked) == 2


async def test_a_left_out_value_of_a_deletion_is_not_asked_for(bench: Bench) -> None:
    await bench.index(put("a", 1, "text"))
    await bench.index(version_of_change(change("deleted", None, "a", 2, value_omitted=True)))
    await bench.check({"a": (2, None)})
    assert bench.kept.asked == []


async def test_only_what_has_to_be_read_waits_for_the_memory_service(bench: Bench) -> None:
    bench.kept.is_down = True
    with pytest.raises(Unavailable):
        await bench.index(omitted("a", 1), put("b", 1, "told"))
    await bench.check({"b": (1, "told")})
    bench.kept.is_down = False
    bench.kept.living["user:alice", "a"] = memory("a", 1, "large")
    await bench.index(omitted("a", 1), put("b", 1, "told"))
    await bench.check({"a": (1, "large"), "b": (1, "told")})


async def test_a_thousand_items_at_once(bench: Bench) -> None:
    await bench.index(*(put(f"k{number}", 1, f"text {number}") for number in range(990)))
    await bench.check({f"k{number}": (1, f"text {number}") for number in range(990)})
    await bench.index(*(deleted(f"k{number}", 2 + number % 3) for number in range(0, 990, 2)))
    await bench.check(
        {f"k{number}": (1, f"text {number}") if number % 2 else (2 + number % 3, None) for number in range(990)}
    )
    assert bench.embedder.calls <= 15


async def test_tenants_have_nothing_in_common(bench: Bench) -> None:
    await bench.index(put("a", 1, "ours"), put("a", 2, "theirs", tenant="other"), put("b", 1, "b", tenant="third"))
    await bench.index(deleted("b", 2, tenant="third"))
    await bench.check({"a": (1, "ours")})
    await bench.check({"a": (2, "theirs")}, "other")
    await bench.check({"b": (2, None)}, "third")
    assert bench.embedder.calls == 1, "they share what costs most"


async def test_what_is_indexed_again_is_read_again(bench: Bench) -> None:
    await bench.index(put("a", 1, "one"), put("b", 1, "one"), put("c", 1, "one"))
    await bench.store.delete(bench.collection, TENANT, list(await bench.points()))
    bench.kept.living["user:alice", "a"] = memory("a", 1, "one")
    bench.kept.living["user:alice", "b"] = memory("b", 2, "two")
    await bench.indexer.again(TENANT, [place("a"), place("b"), place("c"), place("unknown")])
    assert set(await bench.points()) == {point_name(place("a"), 1, 0), point_name(place("b"), 2, 0)}
    assert bench.embedder.embedded == ["one", "one", "one", "two"]
    assert await bench.announced("a") == [("synced", 1, 1)]
    assert await bench.announced("b") == [("synced", 1, 1), ("synced", 2, 2)]


async def test_what_was_read_too_early_is_not_indexed_again(bench: Bench) -> None:
    await bench.index(put("a", 2, "two"), put("b", 1, "one"))
    await bench.index(deleted("b", 2))
    bench.kept.living["user:alice", "a"] = memory("a", 1, "one")
    bench.kept.living["user:alice", "b"] = memory("b", 1, "one")
    await bench.indexer.again(TENANT, [place("a"), place("b")])
    await bench.check({"a": (2, "two"), "b": (2, None)})


async def test_two_tellings_of_one_moment_are_one(bench: Bench) -> None:
    another = bench.another()
    told = [put(f"k{number}", 1, f"text {number}") for number in range(50)]
    await asyncio.gather(bench.index(*told), another.index(*reversed(told)), bench.index(*told))
    await bench.check({f"k{number}": (1, f"text {number}") for number in range(50)})
    assert await bench.announced("k7") == [("synced", 1, 1)]


@pytest.mark.parametrize("value", [None, "text", 7, {}, {"namespace": "user:alice"}])
async def test_a_change_that_is_none_of_a_memory_is_refused_by_itself(value: object) -> None:
    with pytest.raises(InvalidRequest):
        version_of_change(change("put", None, "a", 1).model_copy(update={"value": value}))


async def test_a_time_that_is_none_is_refused() -> None:
    with pytest.raises(InvalidRequest):
        version_of_memory(TENANT, memory("a", 1, "text", updated_at="yesterday"))
