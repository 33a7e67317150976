"""Recall between a write and its indexing: the version that counts, pending items, deleted items."""

import time

import pytest

from hivemem_runtime.ledger.places import place_of
from hivemem_testing.waiting import eventually
from hivemem_vectors.pipeline.decisions.changes import ItemVersion, version_of_memory
from hivemem_vectors.pipeline.decisions.points import point_name
from hivemem_vectors.pipeline.entities import PENDING, SYNCED, Item, Mirror, event_place

from .shelf import NAMESPACE, Body, Shelf, keys, mirrored

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_points_that_are_not_noted_yet_are_found_where_they_are_of_now(shelf: Shelf) -> None:
    """Their worker died, or is about to record them."""
    await shelf.keep("k", "a red car")
    await shelf.upsert(version_of_memory(shelf.tenant, await shelf.bot.put("k", "a glass of milk")))
    late = await shelf.bot.put("late", "a glass of milk")
    await shelf.upsert(version_of_memory(shelf.tenant, late))
    await shelf.bot.put("late", "a blue car")

    (item,) = (await shelf.answer("milk"))["items"]

    assert (item["key"], item["version"], item["text"]) == ("k", 2, "a glass of milk")
    assert item["scores"]["keyword"] > 0


async def test_points_of_a_version_before_are_not_found(shelf: Shelf) -> None:
    """Their removal comes last, or was missed."""
    await shelf.keep("k", "a red car")
    await shelf.keep("k", "a glass of milk")

    (item,) = (await shelf.answer("red car"))["items"]

    assert item["text"] == "a glass of milk"
    assert item["scores"]["keyword"] == 0


async def test_what_is_left_of_a_version_before_is_not_found(shelf: Shelf) -> None:
    await shelf.keep("k", "a red car")
    await shelf.keep("k", "a glass of milk")
    newest = point_name(place_of(NAMESPACE, "k"), 2, 0)
    await shelf.desk.store.delete(shelf.desk.collection, shelf.tenant, [newest])

    assert await shelf.recall("red car") == []


async def test_a_memory_that_changed_since_is_answered_as_it_is_now(shelf: Shelf) -> None:
    await shelf.keep("k", "a red car")
    await shelf.bot.put("k", {"colour": "blue"}, memory_type="episodic", metadata={"n": 1})

    (item,) = (await shelf.answer("red car"))["items"]

    assert (item["version"], item["value"], item["text"]) == (2, {"colour": "blue"}, None)
    assert (item["memory_type"], item["metadata"]) == ("episodic", {"n": 1})


async def test_a_memory_that_changed_since_has_to_pass_the_filters_as_it_is_now(shelf: Shelf) -> None:
    await shelf.keep("k", "a red car", memory_type="semantic", metadata={"n": 1})
    await shelf.bot.put("k", "a red car", memory_type="episodic", metadata={"n": 2})

    assert await shelf.recall("car", memory_type="semantic") == []
    assert await shelf.recall("car", filter={"metadata": {"n": 1}}) == []
    assert await shelf.recall("car") == ["k"]


async def test_a_memory_that_was_deleted_since_is_not_found(shelf: Shelf) -> None:
    for key in ("kept", "deleted", "erased", "expired"):
        await shelf.keep(key, "a red car")
    names = {"namespace": NAMESPACE}
    await shelf.bot.ask("delete", names, key="deleted")
    await shelf.bot.ask("erase", names, key="erased")
    moment = time.time() + 0.05
    expires_at = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(moment)) + f".{int(moment % 1 * 1e6):06}Z"
    await shelf.bot.put("expired", "a red car", expires_at=expires_at)

    async def over() -> bool:
        return time.time() > moment

    await eventually(over, "it has expired")
    assert await shelf.recall("car") == ["kept"]


async def test_a_memory_that_is_not_to_be_indexed_any_more_is_not_found(shelf: Shelf) -> None:
    await shelf.keep("k", "a red car")
    await shelf.bot.put("k", "a red car", index=False)

    assert await shelf.recall("car") == []


async def test_whatever_is_gone_makes_room_for_others(shelf: Shelf) -> None:
    for number in range(36):
        memory = await shelf.keep(f"k{number:02}", "a red car")
        if number < 33:
            await shelf.bot.ask("delete", {"namespace": NAMESPACE, "key": memory["key"]})

    assert await shelf.recall("car", limit=2) == ["k33", "k34"]


async def test_a_deletion_that_the_index_has_heard_of_is_not_found(shelf: Shelf) -> None:
    """The points may still exist."""
    memory = await shelf.keep("k", "a red car")
    await shelf.bot.ask("delete", {"namespace": NAMESPACE, "key": "k"})
    await shelf.remove(memory, memory["version"] + 1)

    assert await shelf.recall("car") == []


async def test_what_waits_is_found_by_its_words(shelf: Shelf) -> None:
    await shelf.keep("far", "nothing of that")
    memory = await shelf.bot.put("new", "the code is ERR-4312")
    await shelf.wait(memory, error="the embedder is down")

    answer = await shelf.answer("ERR-4312", weights={"dense": 0.2})

    assert keys(answer)[0] == "new"
    assert answer["items"][0]["text"] == "the code is ERR-4312"
    assert answer["items"][0]["scores"]["dense"] == 0
    assert answer["items"][0]["scores"]["keyword"] > 0
    assert answer["degraded"] == {
        "reasons": ["behind"],
        "detail": "1 item waits for the index: the embedder is down",
    }


async def test_what_waits_is_found_by_its_meaning_where_it_is_embedded(shelf: Shelf) -> None:
    await shelf.wait(await shelf.bot.put("new", "my automobile"), embedded=True)

    answer = await shelf.answer("vehicle")

    assert keys(answer) == ["new"]
    assert answer["items"][0]["scores"]["dense"] > 0.2
    assert answer["degraded"]["reasons"] == ["behind"]


async def test_what_waits_takes_the_place_of_what_it_was(shelf: Shelf) -> None:
    await shelf.keep("k", "a red car")
    await shelf.wait(await shelf.bot.put("k", "a glass of milk"), indexed=1, embedded=True)

    (item,) = (await shelf.answer("a glass of milk"))["items"]

    assert (item["version"], item["text"]) == (2, "a glass of milk")
    assert item["scores"]["dense"] == pytest.approx(1, abs=1e-3)
    (item,) = (await shelf.answer("red car"))["items"]
    assert item["text"] == "a glass of milk"


async def test_an_item_that_waits_without_a_text_is_found_as_it_was(shelf: Shelf) -> None:
    """The memory service was unavailable, so the newer text is unknown."""
    memory = await shelf.keep("k", "a red car")
    told = version_of_memory(shelf.tenant, memory)
    await shelf.note(told.place, Item(2, False, "stale", 1, 1, 1), mirrored(told))

    answer = await shelf.answer("car")

    assert keys(answer) == ["k"]
    assert answer["degraded"]["reasons"] == ["behind"]


async def test_what_waits_has_to_pass_the_filters(shelf: Shelf) -> None:
    await shelf.wait(await shelf.bot.put("k", "a red car", memory_type="episodic"), embedded=True)
    await shelf.wait(await shelf.bot.put("o", "a red car", namespace="user:bob"), embedded=True)

    assert keys(await shelf.answer("car", memory_type="procedural")) == []
    assert keys(await shelf.answer("car", memory_type="episodic")) == ["k"]
    assert keys(await shelf.answer("car", namespace_prefix="user:bob")) == ["o"]
    assert await shelf.recall("car", namespace_prefix="user:carol") == []


async def test_many_that_wait_are_counted_up_to_a_bound(shelf: Shelf) -> None:
    for number in range(201):
        told = ItemVersion(shelf.tenant, event_place("s", f"e{number:03}"), 1, False, {"updated_at": 1}, "note")
        await shelf.note(told.place, Item(1, False, PENDING, attempts=1), mirrored(told, embedded=False))

    assert (await shelf.answer("note"))["degraded"]["detail"] == "more than 200 items wait for the index"


def event(shelf: Shelf, id: str, content: object, text: str) -> ItemVersion:
    fields: Body = {"created_by": "bot", "updated_at": time.time_ns() // 1_000, "metadata": {"n": 1}}
    return ItemVersion(shelf.tenant, event_place("s1", id), 7, False, fields, text, content)


async def test_an_event_is_found_with_what_was_kept_of_it(shelf: Shelf) -> None:
    await shelf.sync(event(shelf, "e1", {"said": "my automobile is red"}, "my automobile is red"))
    await shelf.keep("e1", "a glass of milk", namespace="session:s1")

    found, other = (await shelf.answer("vehicle", namespace_prefix="session:s1"))["items"]

    assert (found["kind"], found["namespace"], found["key"]) == ("event", "session:s1", "e1")
    assert (found["version"], found["value"]) == (7, {"said": "my automobile is red"})
    assert (found["memory_type"], found["metadata"]) == (None, {"n": 1})
    assert found["text"] == "my automobile is red"
    assert (other["kind"], other["key"], other["value"]) == ("memory", "e1", "a glass of milk")
    assert keys(await shelf.answer("vehicle", memory_type="semantic")) == ["e1"]
    assert await shelf.recall("vehicle", namespace_prefix="session:s2") == []


async def test_an_event_that_is_gone_is_not_found(shelf: Shelf) -> None:
    told = event(shelf, "e1", "a red car", "a red car")
    await shelf.sync(told)
    await shelf.note(told.place, Item(8, True, SYNCED, told=2), Mirror())

    assert await shelf.recall("car") == []
