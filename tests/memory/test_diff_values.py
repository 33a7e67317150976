"""Differences of JSON values are correct, and applying them in order gives the later value."""

import copy
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hivemem_memory.endpoints.json_diff import ABSENT, bounded_differences, differences

NAMES = st.sampled_from(["a", "b", "", "~", "/", "~1", "a/b", "0", "1", "ü"])
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-2, 2),
    st.sampled_from([0.5, 1.0, 2.0]),
    st.text("ab", max_size=2),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(NAMES, inner, max_size=4)),
    max_leaves=12,
)


CASES: list[tuple[Any, Any, list[tuple[Any, ...]]]] = [
    ({"a": 1}, {"a": 2}, [("/a", "changed", 1, 2)]),
    ({"a": {"b": 1}}, {"a": {}}, [("/a/b", "removed", 1, None)]),
    ({}, {"x/y~z": None}, [("/x~1y~0z", "added", None, None)]),
    ([1, 2, 3], [1, 4], [("/1", "changed", 2, 4), ("/2", "removed", 3, None)]),
    ([1], [1, 2, 3], [("/1", "added", None, 2), ("/2", "added", None, 3)]),
    ([1, 2, 3], [], [("/2", "removed", 3, None), ("/1", "removed", 2, None), ("/0", "removed", 1, None)]),
    (1, True, [("", "changed", 1, True)]),
    ({"a": [0]}, {"a": [False]}, [("/a/0", "changed", 0, False)]),
    ({"a": []}, {"a": {}}, [("/a", "changed", [], {})]),
    (None, {}, [("", "changed", None, {})]),
]


def applied(before: Any, steps: list[dict[str, Any]]) -> Any:
    """Return the later value, computed from the steps alone."""
    root: dict[Any, Any] = {} if before is ABSENT else {"": copy.deepcopy(before)}
    for step in steps:
        names = [name.replace("~1", "/").replace("~0", "~") for name in step["path"].split("/")]
        holder: Any = root
        for name in names[:-1]:
            holder = holder[_place(holder, name)]
        _apply(holder, _place(holder, names[-1]), step)
    return root.get("", ABSENT)


def _place(holder: Any, name: str) -> Any:
    return name if isinstance(holder, dict) else int(name)


def _apply(holder: Any, place: Any, step: dict[str, Any]) -> None:
    there = place in holder if isinstance(place, str) else place < len(holder)
    assert there is (step["change"] != "added")
    assert not there or same(holder[place], step["before"])
    if step["change"] == "removed":
        del holder[place]
    elif there or isinstance(place, str):
        holder[place] = step["after"]
    else:
        assert place == len(holder)
        holder.append(step["after"])


def same(one: Any, other: Any) -> bool:
    """Compare types as well, and ignore the order of an object's fields."""
    if one is ABSENT or other is ABSENT:
        return one is other
    return orjson.dumps(one, option=orjson.OPT_SORT_KEYS) == orjson.dumps(other, option=orjson.OPT_SORT_KEYS)


@given(VALUES, VALUES)
def test_making_the_differences_gives_the_value_after(before: Any, after: Any) -> None:
    assert same(applied(before, list(differences(before, after))), after)


@given(VALUES)
def test_what_comes_and_what_goes_is_one_difference(value: Any) -> None:
    assert list(differences(ABSENT, value)) == [{"path": "", "change": "added", "before": None, "after": value}]
    assert list(differences(value, ABSENT)) == [{"path": "", "change": "removed", "before": value, "after": None}]
    assert list(differences(ABSENT, ABSENT)) == []


@given(VALUES)
def test_the_same_value_has_no_differences(value: Any) -> None:
    assert list(differences(value, copy.deepcopy(value))) == []


@given(VALUES, VALUES, st.integers(0, 200))
def test_differences_that_take_too_much_are_left_out_as_a_whole(before: Any, after: Any, limit: int) -> None:
    found = list(differences(before, after))
    size = sum(len(orjson.dumps(step)) + 1 for step in found)
    assert bounded_differences(before, after, limit) == (found if size <= limit else None)


@pytest.mark.parametrize(("before", "after", "expected"), CASES)
def test_what_a_difference_says(before: Any, after: Any, expected: list[tuple[Any, ...]]) -> None:
    found = [(step["path"], step["change"], step["before"], step["after"]) for step in differences(before, after)]
    assert found == expected


def test_a_difference_without_end_is_found_out_early() -> None:
    before, after = [0] * 200_000, [1] * 200_000
    assert bounded_differences(before, after, 10_000) is None
