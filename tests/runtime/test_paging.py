"""Pages end before they grow too large, and a cursor is valid for one list only."""

import base64
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hivemem_contracts.errors import InvalidRequest
from hivemem_runtime.paging import READ_AT_ONCE, Bookmark, Lines

ITEMS = st.lists(st.text("a", max_size=40), max_size=30)


@given(ITEMS, st.integers(1, 20), st.integers(0, 200))
def test_an_answer_holds_what_fits_and_always_the_first(items: list[str], limit: int, room: int) -> None:
    lines = Lines(limit, room=room)
    taken = 0
    for item in items:
        if not lines.add(item):
            break
        taken += 1
    sizes = [len(orjson.dumps(item)) + 1 for item in items]
    assert orjson.loads(lines.answer(None)) == {"items": items[:taken], "cursor": None}
    assert taken <= limit
    assert taken >= min(1, len(items))
    assert taken <= 1 or sum(sizes[:taken]) <= room
    assert taken in (limit, len(items)) or sum(sizes[: taken + 1]) > room
    assert lines.complete or taken == len(items)


@given(ITEMS, ITEMS, st.integers(1, 20), st.integers(0, 200))
def test_what_is_taken_back_was_never_there(kept: list[str], cut: list[str], limit: int, room: int) -> None:
    plain, lines = Lines(limit, room=room), Lines(limit, room=room)
    for item in kept:
        plain.add(item)
        lines.add(item)
    held = len(plain)
    if plain.complete:
        return
    for item in cut:
        lines.add(item)
    lines.cut(held)
    for item in [*cut[::-1], *kept]:
        assert plain.add(item) is lines.add(item)
    assert plain.answer("c", more=1) == lines.answer("c", more=1)


@given(st.integers(1, 1_000), st.integers(-5, 2_000_000))
def test_what_is_read_next_is_bounded(limit: int, average: int) -> None:
    lines = Lines(limit, average)
    assert 1 <= lines.wanted() <= min(limit, READ_AT_ONCE)
    assert 1 <= lines.wanted(sieved=True) <= READ_AT_ONCE


def test_large_items_are_read_a_few_at_a_time() -> None:
    lines = Lines(1_000)
    assert lines.wanted() == READ_AT_ONCE
    lines.add("x" * 300_000)
    assert lines.wanted() == 2
    assert Lines(1_000, lines.average).wanted() == 3


def test_a_bookmark_finds_its_own_place_again() -> None:
    cursor = Bookmark("list", "user", None).put("place", 5)
    assert Bookmark("list", "user", None).find(cursor, str, int) == ["place", 5]


@pytest.mark.parametrize(
    "asked", [("list", "user", 1), ("list", "users", None), ("count", "user", None), ("list", "user")]
)
def test_a_bookmark_of_another_list_is_refused(asked: tuple[Any, ...]) -> None:
    cursor = Bookmark("list", "user", None).put("place", 5)
    with pytest.raises(InvalidRequest):
        Bookmark(*asked).find(cursor, str, int)


@pytest.mark.parametrize("parts", [("place", "5"), (5, 5), ("place",), ("place", 2**70), (None, 1)])
def test_a_forged_place_is_refused(parts: tuple[Any, ...]) -> None:
    own: list[Any] = orjson.loads(base64.urlsafe_b64decode(Bookmark("list").put("place", 5) + "=="))
    text = b",".join(str(part).encode() if isinstance(part, int) else orjson.dumps(part) for part in [*own[:2], *parts])
    cursor = base64.urlsafe_b64encode(b"[" + text + b"]").rstrip(b"=").decode()
    with pytest.raises(InvalidRequest) as refused:
        Bookmark("list").find(cursor, str, int)
    assert refused.value.context["field"] == "cursor"
