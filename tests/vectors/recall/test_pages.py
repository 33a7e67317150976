"""Pages of a recall: together they have each item once, in the order of one search after the other."""

from typing import Any

import pytest

from hivemem_contracts.errors import InvalidRequest
from hivemem_vectors.recall.decisions import ranking_positions

from .shelf import Body, Shelf, keys

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def kept(shelf: Shelf, count: int) -> list[str]:
    """Keep notes; every third one has a word of the question."""
    names = [f"k{number:03}" for number in range(count)]
    for number, name in enumerate(names):
        await shelf.keep(name, f"note {'car ' if number % 3 == 0 else ''}{number} of {number * 7 % 11}")
    return names


async def pages(shelf: Shelf, query: str, **fields: Any) -> list[Body]:
    found: list[Body] = []
    cursor: str | None = None
    while True:
        answer = await shelf.answer(query, **fields, **({"cursor": cursor} if cursor else {}))
        assert answer["degraded"] is None
        found.append(answer)
        cursor = answer["cursor"]
        if cursor is None:
            return found


@pytest.mark.parametrize("limit", [3, 10, 100])
async def test_pages_have_each_item_once(shelf: Shelf, monkeypatch: pytest.MonkeyPatch, limit: int) -> None:
    monkeypatch.setattr(ranking_positions, "FEWEST_POINTS", 5)
    monkeypatch.setattr(ranking_positions, "POINTS_PER_ITEM", 2)
    names = await kept(shelf, 60)
    found = await pages(shelf, "a car", limit=limit)
    assert sorted(key for answer in found for key in keys(answer)) == names
    assert all(len(answer["items"]) <= limit for answer in found)


async def test_pages_of_one_search_are_in_the_order_of_a_single_one(shelf: Shelf) -> None:
    await kept(shelf, 30)
    whole = await shelf.answer("a car", limit=30)
    assert whole["cursor"] is None
    found = await pages(shelf, "a car", limit=7)
    assert [item["key"] for answer in found for item in answer["items"]] == keys(whole)
    assert [item["score"] for answer in found for item in answer["items"]] == [item["score"] for item in whole["items"]]


async def test_what_did_not_fit_is_on_the_next_page(shelf: Shelf) -> None:
    names = await kept(shelf, 12)
    found = await pages(shelf, "a car", limit=10, max_tokens=20)
    assert sorted(key for answer in found for key in keys(answer)) == names
    assert found[0]["cut"] == "tokens"


async def test_items_that_come_and_go_between_pages(shelf: Shelf) -> None:
    names = await kept(shelf, 20)
    page = await shelf.answer("a car", limit=5)
    rest = [name for name in names if name not in keys(page)]
    await shelf.bot.ask("delete", namespace="user:alice", key=rest[0])
    await shelf.keep("new", "car")
    found: list[str] = []
    while page["cursor"] is not None:
        page = await shelf.answer("a car", limit=5, cursor=page["cursor"])
        found += keys(page)
    assert sorted(name for name in found if name != "new") == rest[1:]


async def test_a_cursor_belongs_to_its_question(shelf: Shelf) -> None:
    await kept(shelf, 5)
    cursor = (await shelf.answer("a car", limit=2))["cursor"]
    assert len((await shelf.answer("a car", limit=3, explain=True, context=1, cursor=cursor))["items"]) == 3
    for other in ({"query": "a bus"}, {"memory_type": "semantic"}, {"cursor": "AAAA"}, {"cursor": cursor[:-4]}):
        with pytest.raises(InvalidRequest) as refused:
            await shelf.answer(**{"query": "a car", "cursor": cursor, **other})
        assert refused.value.context["field"] == "cursor"
