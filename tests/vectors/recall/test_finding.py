"""Recall by meaning, by words and below a prefix, on each store."""

import pytest

from .shelf import CHUNK_BETWEEN, Shelf

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_a_memory_is_found_by_its_meaning_and_by_its_words(shelf: Shelf) -> None:
    memory = await shelf.keep("car", "my automobile is red", metadata={"n": 1}, importance=0.25)
    await shelf.keep("tea", {"likes": ["green tea", 3]})

    answer = await shelf.answer("which vehicle")
    best, other = answer["items"]

    assert (best["key"], other["key"]) == ("car", "tea")
    assert best | {"score": 0, "scores": {}} == {
        "kind": "memory",
        "namespace": "user:alice",
        "key": "car",
        "version": 1,
        "value": "my automobile is red",
        "memory_type": "semantic",
        "metadata": {"n": 1},
        "created_at": memory["created_at"],
        "updated_at": memory["updated_at"],
        "text": "my automobile is red",
        "score": 0,
        "scores": {},
        "matched": None,
        "session_id": None,
        "author": None,
        "occurred_at": None,
        "context": None,
    }
    assert answer["cut"] is None
    assert answer["degraded"] is None
    assert other["text"] == "green tea"
    assert (await shelf.recall("tea"))[0] == "tea"


async def test_an_answer_has_no_more_items_than_were_asked_for(shelf: Shelf) -> None:
    for number in range(15):
        await shelf.keep(f"k{number:02}", f"note {number}")

    assert len(await shelf.recall("note")) == 10
    assert len(await shelf.recall("note", limit=3)) == 3
    assert len(await shelf.recall("note", limit=100)) == 15


async def test_nothing_is_found_where_there_is_nothing(shelf: Shelf) -> None:
    assert await shelf.answer("anything") == {"items": [], "cursor": None, "degraded": None, "cut": None}


async def test_a_question_without_words_is_answered(shelf: Shelf) -> None:
    await shelf.keep("k", "note")

    assert await shelf.recall("?!") == ["k"]


async def test_a_prefix_is_whole_segments(shelf: Shelf) -> None:
    for namespace in ("user:alice", "user:alice:notes", "user:alicex", "app:alice"):
        await shelf.keep(namespace, "note", namespace=namespace)

    assert set(await shelf.recall("note", namespace_prefix="user:alice")) == {"user:alice", "user:alice:notes"}
    assert await shelf.recall("note", namespace_prefix="user:alice:notes") == ["user:alice:notes"]
    assert set(await shelf.recall("note", namespace_prefix="user")) == {
        "user:alice",
        "user:alice:notes",
        "user:alicex",
    }
    assert await shelf.recall("note", namespace_prefix="user:ali") == []
    assert len(await shelf.recall("note")) == 4


async def test_tenants_know_nothing_of_each_other(shelf: Shelf) -> None:
    await shelf.keep("k", "a red car")
    bot = shelf.bot
    other = Shelf(shelf.desk, type(bot)(bot.client, bot.worker, f"{bot.tenant}-other"), shelf.service)
    await other.keep("k", "a blue car")

    assert [item["value"] for item in (await shelf.answer("car"))["items"]] == ["a red car"]
    assert [item["value"] for item in (await other.answer("car"))["items"]] == ["a blue car"]


async def test_a_memory_of_many_chunks_is_one_item_by_its_best(shelf: Shelf) -> None:
    chapters = ["winter was cold", "the doctor came late", "spring is near"]
    await shelf.keep("story", CHUNK_BETWEEN.join(chapters))
    await shelf.keep("other", "summer")

    (item,) = [item for item in (await shelf.answer("physician"))["items"] if item["key"] == "story"]

    assert item["text"] == chapters[1]
    assert len(await shelf.recall("physician")) == 2


async def test_memories_of_many_chunks_do_not_crowd_out_the_others(shelf: Shelf) -> None:
    for number in range(3):
        await shelf.keep(f"long{number}", CHUNK_BETWEEN.join(["red car"] * 30))
    for number in range(5):
        await shelf.keep(f"short{number}", f"red paint {number}")

    assert len(await shelf.recall("red car", limit=8)) == 8


async def test_keys_may_be_anything(shelf: Shelf) -> None:
    names = ["%k", "ключ", "%", "a.b *>", "1" * 256]
    for name in names:
        await shelf.keep(name, "note", namespace="user:å:ключ")

    assert sorted(await shelf.recall("note", namespace_prefix="user:å")) == sorted(names)


async def test_what_is_asked_for_by_its_code_comes_first(shelf: Shelf) -> None:
    for number in range(4310, 4320):
        await shelf.keep(f"k{number}", f"the pump stopped with ERR-{number}")

    assert (await shelf.recall("ERR-4312"))[0] == "k4312"
