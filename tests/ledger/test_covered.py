"""`covered` and `count` answer from an index alone, without reading a head."""

import asyncio
import random
from typing import Any, get_args

import pytest

from hivemem_contracts.errors import HiveError, InvalidRequest
from hivemem_runtime.ledger.entity import Scalar
from hivemem_runtime.ledger.port import Append, Covered, Decide, Ledger, QueryKind

from .backends import Backend
from .entities import COUNTER, ENTITIES, NOTE, CounterSet
from .waiting import announce_all
from .writes import TENANT, Told, count, edit, write

MANY = 12_000
"""More heads than are counted in one go."""


async def _covered(ledger: Ledger, index: str, *, limit: int = 1000, **asked: Any) -> list[Covered]:
    found: list[Covered] = []
    asked = {"equals": {}, **asked}
    cursor: str | None = None
    for _ in range(1000):
        page = await ledger.covered(NOTE, TENANT, index, limit=limit, cursor=cursor, **asked)
        assert len(page.items) <= limit
        found += page.items
        cursor = page.cursor
        if cursor is None:
            return found
    raise AssertionError("the pages never end")


async def _notes(ledger: Ledger) -> None:
    random_ = random.Random(5)
    for number in range(40):
        fields: dict[str, Any] = {"board": random_.choice(("red", "blue", None)), "rank": random_.randint(-2, 2)}
        await ledger.commit(edit(f"n{number:02}", f"{number}", pinned=random_.random() < 0.5, add=number, **fields))


async def test_covered_fields_come_back_as_they_were_put_in(backend: Backend, ledger: Ledger) -> None:
    await ledger.commit(edit("a", "1", pinned=True, add=2**62, board="red"))
    await ledger.commit(edit("b", "", pinned=False, add=-1))
    await ledger.commit(edit("c", "\U0001f41d", add=1, board="true"))

    for each in (ledger, await backend.open()):
        covered = await _covered(each, "ids")
        assert covered == [
            Covered("a", {"total": 2**62, "pinned": True, "text": "1", "board": "red"}),
            Covered("b", {"total": -1, "pinned": False, "text": "", "board": None}),
            Covered("c", {"total": 1, "pinned": False, "text": "\U0001f41d", "board": "true"}),
        ]
        for found in covered:
            assert [type(value) for value in found.values.values()][:3] == [int, bool, str]
        boards = await _covered(each, "boards")
        assert [(found.id, found.values["pinned"] is True) for found in boards] == [("a", True), ("c", False)]


@pytest.mark.parametrize("limit", [1000, 7, 1])
async def test_covered_finds_what_find_finds(ledger: Ledger, limit: int) -> None:
    await _notes(ledger)
    cases: list[tuple[str, dict[str, Scalar], tuple[Scalar, ...]]] = [
        ("ids", {}, (None, "n", "n07", "n33")),
        ("board_ids", {"board": "red"}, (None, "n10")),
        ("boards", {}, (None, "c", "red")),
        ("by_board", {"board": "blue"}, (None, -1, 1)),
        ("by_text", {"board": "red", "shade": "plain"}, (None, "2")),
        ("recent", {}, (None,)),
        ("pinned_ids", {}, (None, "n20")),
        ("by_board", {"board": "no such"}, (None,)),
    ]
    for index, equals, bounds in cases:
        for low, high, reverse in [(low, high, way) for low in bounds for high in bounds for way in (False, True)]:
            asked: dict[str, Any] = {"equals": equals, "low": low, "high": high, "reverse": reverse}
            page = await ledger.find(NOTE, TENANT, index, limit=1000, **asked)
            covered = await _covered(ledger, index, limit=limit, **asked)
            assert [found.id for found in covered] == [head.id for head in page.items]
            for found, head in zip(covered, page.items, strict=True):
                covering = NOTE.index_by_name[index].covering
                assert found.values == {name: getattr(head.value, name) for name in covering}


async def test_count_is_as_many_as_find_comes_by(ledger: Ledger) -> None:
    await _notes(ledger)
    for index, equals, low, high in (
        ("ids", {}, None, None),
        ("ids", {}, "n05", "n21"),
        ("ids", {}, "n21", "n05"),
        ("board_ids", {"board": "blue"}, None, "n30"),
        ("pinned_ids", {}, "n10", None),
        ("pinned", {"board": "red"}, None, None),
        ("by_board", {"board": "red"}, -1, 2),
        ("boards", {}, None, None),
        ("boards", {}, "c", None),
        ("by_board", {"board": "no such"}, None, None),
    ):
        asked: dict[str, Any] = {"equals": equals, "low": low, "high": high}
        page = await ledger.find(NOTE, TENANT, index, limit=1000, **asked)
        assert await ledger.count(NOTE, TENANT, index, **asked) == len(page.items), (index, low, high)


async def test_many_are_counted_while_others_write(backend: Backend, ledger: Ledger) -> None:
    other = await backend.open()

    def thousand(start: int) -> Decide:
        numbers = range(start, start + 1000)
        return lambda _heads, _now: [Append(COUNTER, f"c{number:06}", CounterSet(number, "x")) for number in numbers]

    for start in range(0, MANY, 1000):
        await ledger.commit(write(COUNTER, "c", thousand(start)))

    for each in (ledger, other):
        assert await each.count(COUNTER, TENANT, "by_name", equals={"name": "x"}) == MANY
        assert await each.count(COUNTER, TENANT, "by_name", equals={"name": "x"}, low=11, high=11_511) == 11_500
    counting = [ledger.count(COUNTER, TENANT, "by_name", equals={"name": "x"}) for _ in range(6)]
    writing = [other.commit(count(f"new{number}", name="x")) for number in range(20)]
    counts, _ = await asyncio.gather(asyncio.gather(*counting), asyncio.gather(*writing))
    assert all(MANY <= counted <= MANY + 20 for counted in counts)
    assert await ledger.count(COUNTER, TENANT, "by_name", equals={"name": "x"}) == MANY + 20


async def test_what_is_erased_is_neither_covered_nor_counted(ledger: Ledger) -> None:
    indexes: dict[str, dict[str, Scalar]] = {"ids": {}, "pinned_ids": {}, "board_ids": {"board": "red"}, "boards": {}}
    for id in ("a", "b", "c"):
        await ledger.commit(edit(id, pinned=True, board="red"))
    await announce_all(ledger)
    await ledger.erase(NOTE, TENANT, "b", actor="eve", cause=None)

    for index, equals in indexes.items():
        assert [found.id for found in await _covered(ledger, index, equals=equals)] == ["a", "c"]
        assert await ledger.count(NOTE, TENANT, index, equals=equals) == 2
        assert [head.id for head in (await ledger.find(NOTE, TENANT, index, equals=equals, limit=9)).items] == [
            *("a", "c")
        ]

    await announce_all(ledger)
    await ledger.commit(edit("b", pinned=True, board="red"))
    for index, equals in indexes.items():
        assert [found.id for found in await _covered(ledger, index, equals=equals)] == ["a", "b", "c"]
        assert await ledger.count(NOTE, TENANT, index, equals=equals) == 3


async def test_others_are_neither_covered_nor_counted(ledger: Ledger) -> None:
    await ledger.commit(edit("n", told=Told(tenant="zeta")))
    await ledger.commit(count("n"))

    assert await _covered(ledger, "ids") == []
    assert await ledger.count(NOTE, TENANT, "ids", equals={}) == 0
    assert await ledger.count(NOTE, "zeta", "ids", equals={}) == 1


async def test_covered_head_is_the_newest_one(backend: Backend, ledger: Ledger) -> None:
    other = await backend.open()
    for number in range(4):
        await (ledger, other)[number % 2].commit(edit("n", f"{number}", pinned=number % 2 == 0, add=1))
        for each in (ledger, other):
            (found,) = await _covered(each, "ids")
            assert (found.values["total"], found.values["pinned"]) == (number + 1, number % 2 == 0)


async def test_cursor_of_another_list_is_refused(ledger: Ledger) -> None:
    await asyncio.gather(*[ledger.commit(edit(f"n{number}", board="red")) for number in range(4)])
    page = await ledger.covered(NOTE, TENANT, "ids", equals={}, limit=2)
    assert page.cursor

    with pytest.raises(InvalidRequest):
        await ledger.covered(NOTE, TENANT, "boards", equals={}, limit=2, cursor=page.cursor)
    for cursor in ("nonsense", "", "W10"):
        with pytest.raises(InvalidRequest):
            await ledger.covered(NOTE, TENANT, "ids", equals={}, limit=2, cursor=cursor)


async def test_index_that_was_not_declared_is_neither_covered_nor_counted(ledger: Ledger) -> None:
    for index, equals in (("no such", {}), ("ids", {"board": "red"}), ("board_ids", {})):
        with pytest.raises((AssertionError, LookupError, ValueError, HiveError)):
            await ledger.covered(NOTE, TENANT, index, equals=equals, limit=9)
        with pytest.raises((AssertionError, LookupError, ValueError, HiveError)):
            await ledger.count(NOTE, TENANT, index, equals=equals)


async def test_nothing_is_read_beside_the_index(backend: Backend, ledger: Ledger) -> None:
    await _notes(ledger)
    kinds: tuple[QueryKind, ...] = get_args(QueryKind)

    for entity in ENTITIES:
        for index in entity.indexes:
            for kind in kinds:
                words = (*backend.capabilities.scan_words, *(backend.capabilities.fetch_words * (kind != "find")))
                steps = await ledger.explain(entity, index.name, kind)
                assert steps
                for step in steps:
                    assert not any(word in step for word in words), (entity.name, index.name, kind, steps)
