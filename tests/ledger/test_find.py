"""`find` returns heads by a declared index, in its order, page by page, and never by a scan."""

import asyncio
import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from hivemem_contracts.errors import HiveError, InvalidRequest
from hivemem_runtime.ledger.entity import Entity, HeadT, Scalar
from hivemem_runtime.ledger.port import Head, Ledger

from .backends import Backend
from .clock import SECOND, ManualClock
from .entities import COUNTER, ENTITIES, NOTE
from .writes import TENANT, Told, count, edit

BOARDS = ("red", "blue", None)
PLACES = (
    "a",
    "a\x01",
    "a\x01k",
    "a\x01\uffff",
    "a\x02b\x01",
    "a\x02b\x01k",
    "a\x03",
    "ab\x01k",
    "\uffff",
    "\U0001f41d",
)
"""Ids of places in a tree: the places below `a` are one range of ids, without `ab`."""
TEXTS = ("", "a", "B", "b", "ab", "a b", "ä", "z", "~", "\uffff", "\U0001f41d", "10", "9")


async def _find_all(
    ledger: Ledger,
    entity: Entity[HeadT, Any],
    index: str,
    equals: Mapping[str, Scalar],
    *,
    limit: int = 1000,
    **asked: Any,
) -> list[Head[HeadT]]:
    found: list[Head[HeadT]] = []
    cursor: str | None = None
    for _ in range(1000):
        page = await ledger.find(entity, TENANT, index, equals=equals, cursor=cursor, limit=limit, **asked)
        assert len(page.items) <= limit
        assert page.cursor is None or page.items, "a page before the end has items"
        found += page.items
        cursor = page.cursor
        if cursor is None:
            return found
    raise AssertionError("the pages never end")


@dataclass(frozen=True, slots=True)
class Case:
    index: str
    equals: Mapping[str, Scalar]
    order: str | None
    only: str | None = None
    bounds: tuple[Scalar, ...] = ()


CASES = (
    Case("by_board", {"board": "red"}, "rank", bounds=(-2, 0, 3, 99)),
    Case("by_board", {"board": "blue"}, "rank", bounds=(2,)),
    Case("by_board", {"board": "no such"}, "rank"),
    Case("pinned", {"board": "red"}, "changed_at", only="pinned"),
    Case("by_text", {"board": "red", "shade": "plain"}, "text", bounds=("", "a", "b", "\uffff", "\U0001f41d")),
    Case("by_text", {"board": "blue", "shade": "dark"}, "text"),
    Case("recent", {}, "changed_at"),
    Case("ids", {}, None, bounds=("", "a\x01", "a\x02", "a\x03", "n", "n040", "n0400", "\uffff", "\U0001f41d")),
    Case("board_ids", {"board": "red"}, None, bounds=("n040", "z")),
    Case("pinned_ids", {}, None, only="pinned", bounds=("b", "n077")),
    Case("boards", {}, "board", bounds=("blue", "c", "red")),
)


async def _notes(ledger: Ledger, clock: ManualClock) -> list[Head[Any]]:
    random_ = random.Random(11)
    ids = [f"n{number:03}" for number in range(90)] + ["é", "z", "Z", "a.b", "$x", *PLACES]
    random_.shuffle(ids)
    for id in ids:
        clock.advance(random_.choice((0, 0, 1, SECOND)))
        fields: dict[str, Any] = {
            "board": random_.choice(BOARDS),
            "rank": random_.randint(-3, 4),
            "pinned": random_.random() < 0.4,
            "shade": random_.choice(("plain", "dark")),
        }
        await ledger.commit(edit(id, random_.choice(TEXTS), **fields))
    changed = [edit(id, rank=random_.randint(-3, 4), pinned=random_.random() < 0.4) for id in ids[::3]]
    await asyncio.gather(*[ledger.commit(each) for each in changed])
    await ledger.commit(edit("n000", "theirs", board="red", pinned=True, told=Told(tenant="zeta")))
    return list((await ledger.heads(NOTE, TENANT, ids)).values())


def _expected(heads: list[Head[Any]], case: Case, low: Scalar, high: Scalar, reverse: bool) -> list[str]:
    def value(head: Head[Any], name: str | None) -> Any:
        return head.id if name is None else getattr(head.value, name)

    found = [
        head
        for head in heads
        if all(value(head, name) == wanted for name, wanted in case.equals.items())
        and (case.only is None or value(head, case.only))
        and value(head, case.order) is not None
        and (low is None or value(head, case.order) >= low)
        and (high is None or value(head, case.order) < high)
    ]
    return [head.id for head in sorted(found, key=lambda head: (value(head, case.order), head.id), reverse=reverse)]


@pytest.mark.parametrize("limit", [1000, 7, 1])
async def test_each_index_finds_its_heads_in_order_whatever_the_page(
    ledger: Ledger, clock: ManualClock, limit: int
) -> None:
    heads = await _notes(ledger, clock)

    for case in CASES:
        for reverse in (False, True):
            found = await _find_all(ledger, NOTE, case.index, case.equals, reverse=reverse, limit=limit)
            assert [head.id for head in found] == _expected(heads, case, None, None, reverse)
            assert all(head in heads for head in found)


@pytest.mark.parametrize("limit", [1000, 5])
async def test_range_holds_its_low_end_and_not_its_high_one(ledger: Ledger, clock: ManualClock, limit: int) -> None:
    heads = await _notes(ledger, clock)

    for case in CASES:
        bounds = (None, *case.bounds)
        for low, high in [(low, high) for low in bounds for high in bounds]:
            for reverse in (False, True):
                found = await _find_all(
                    ledger, NOTE, case.index, case.equals, low=low, high=high, reverse=reverse, limit=limit
                )
                assert [head.id for head in found] == _expected(heads, case, low, high, reverse)


async def test_what_is_below_a_place_is_one_range(ledger: Ledger) -> None:
    await asyncio.gather(*[ledger.commit(edit(id)) for id in (*PLACES, "a\x00", "a\x04", "b\x01")])

    found = await _find_all(ledger, NOTE, "ids", {}, low="a\x01", high="a\x03", limit=2)

    assert [head.id for head in found] == ["a\x01", "a\x01k", "a\x01\uffff", "a\x02b\x01", "a\x02b\x01k"]


async def test_cursor_of_an_index_by_id_is_an_id(ledger: Ledger) -> None:
    """A made-up cursor with an order in it, and a cursor of another index, are invalid."""
    await asyncio.gather(*[ledger.commit(edit(f"n{number}", board="red", rank=number)) for number in range(4)])
    by_id = await ledger.find(NOTE, TENANT, "board_ids", equals={"board": "red"}, limit=2)
    by_rank = await ledger.find(NOTE, TENANT, "by_board", equals={"board": "red"}, limit=2)

    with pytest.raises(InvalidRequest):
        await ledger.find(NOTE, TENANT, "board_ids", equals={"board": "red"}, limit=2, cursor=by_rank.cursor)
    with pytest.raises(InvalidRequest):
        await ledger.find(NOTE, TENANT, "by_board", equals={"board": "red"}, limit=2, cursor=by_id.cursor)
    rest = await ledger.find(NOTE, TENANT, "board_ids", equals={"board": "red"}, limit=9, cursor=by_id.cursor)
    assert [head.id for head in rest.items] == ["n2", "n3"]


async def test_equal_order_values_are_told_apart_by_id_across_pages(ledger: Ledger) -> None:
    ids = [f"tie-{number}" for number in range(25)]
    await asyncio.gather(*[ledger.commit(edit(id, board="red", rank=1)) for id in reversed(ids)])

    for reverse in (False, True):
        for limit in (1, 4, 5, 24, 25, 26):
            found = await _find_all(ledger, NOTE, "by_board", {"board": "red"}, limit=limit, reverse=reverse)
            assert [head.id for head in found] == sorted(ids, reverse=reverse)


async def test_last_page_has_no_cursor(ledger: Ledger) -> None:
    await asyncio.gather(*[ledger.commit(edit(f"n{number}", board="red")) for number in range(10)])

    for limit, more in ((9, True), (11, False)):
        page = await ledger.find(NOTE, TENANT, "by_board", equals={"board": "red"}, limit=limit)
        assert (page.cursor is not None) is more


async def test_cursor_goes_on_where_the_page_ended_though_heads_came_and_went(ledger: Ledger) -> None:
    await asyncio.gather(*[ledger.commit(edit(f"n{number}", board="red", rank=number)) for number in range(10)])
    page = await ledger.find(NOTE, TENANT, "by_board", equals={"board": "red"}, limit=4)

    await ledger.commit(edit("early", board="red", rank=-1))
    await ledger.commit(edit("late", board="red", rank=5))
    await ledger.commit(edit("n3", rank=100))
    await ledger.commit(edit("n4", board="blue"))
    rest = await ledger.find(NOTE, TENANT, "by_board", equals={"board": "red"}, limit=100, cursor=page.cursor)

    assert [head.id for head in page.items] == ["n0", "n1", "n2", "n3"]
    assert [head.id for head in rest.items] == ["late", "n5", "n6", "n7", "n8", "n9", "n3"]


async def test_cursor_survives_a_restart(backend: Backend, ledger: Ledger) -> None:
    await asyncio.gather(*[ledger.commit(edit(f"n{number}", board="red", rank=number)) for number in range(6)])
    page = await ledger.find(NOTE, TENANT, "by_board", equals={"board": "red"}, limit=3)

    again = await backend.reopen(ledger)
    rest = await again.find(NOTE, TENANT, "by_board", equals={"board": "red"}, limit=9, cursor=page.cursor)

    assert [head.id for head in rest.items] == ["n3", "n4", "n5"]


async def test_made_up_cursor_is_refused(ledger: Ledger) -> None:
    await ledger.commit(edit("n", board="red"))

    for cursor in ("nonsense", "é", "e30", "W10", "WzEsMiwzLDQsNSw2XQ", "WzEsMl0", "a" * 5000, "\x00"):
        with pytest.raises(InvalidRequest):
            await ledger.find(NOTE, TENANT, "by_board", equals={"board": "red"}, limit=9, cursor=cursor)


async def test_index_that_was_not_declared_is_no_query(ledger: Ledger) -> None:
    for index, equals in (("no such", {"board": "red"}), ("by_board", {}), ("by_board", {"shade": "plain"})):
        with pytest.raises((AssertionError, LookupError, ValueError, HiveError)):
            await ledger.find(NOTE, TENANT, index, equals=equals, limit=9)


async def test_change_moves_a_head_between_the_places_of_an_index(ledger: Ledger) -> None:
    async def pinned(board: str) -> list[str]:
        return [head.id for head in await _find_all(ledger, NOTE, "pinned", {"board": board})]

    await ledger.commit(edit("n", board="red"))
    assert await pinned("red") == []
    await ledger.commit(edit("n", pinned=True))
    assert await pinned("red") == ["n"]
    await ledger.commit(edit("n", board="blue"))
    assert (await pinned("red"), await pinned("blue")) == ([], ["n"])
    await ledger.commit(edit("n", pinned=False))
    assert await pinned("blue") == []


async def test_found_head_is_the_newest_one_of_any_process(backend: Backend, ledger: Ledger) -> None:
    other = await backend.open()
    await ledger.commit(count("c", 1, name="x"))
    await other.commit(count("c", 1, name="y"))

    for each in (ledger, other):
        assert await _find_all(each, COUNTER, "by_name", {"name": "x"}) == []
        assert await _find_all(each, COUNTER, "by_name", {"name": "y"}) == [await each.head(COUNTER, TENANT, "c")]


async def test_no_declared_index_scans_or_sorts(backend: Backend, ledger: Ledger, clock: ManualClock) -> None:
    await _notes(ledger, clock)

    for entity in ENTITIES:
        for index in entity.indexes:
            steps = await ledger.explain(entity, index.name)
            assert steps
            for step in steps:
                assert not any(word in step for word in backend.capabilities.scan_words), (entity.name, index, steps)
