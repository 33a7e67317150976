"""Ids, namespaces, times and ULIDs."""

import unicodedata
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from hivemem_contracts.identifiers import (
    NAMESPACE_ROOTS,
    Id,
    Namespace,
    Time,
    format_time,
    join_id,
    microseconds_from_time,
    new_id,
    split_id,
    time_from_microseconds,
)

IDS = TypeAdapter[str](Id)
NAMESPACES = TypeAdapter[str](Namespace)
TIMES = TypeAdapter[datetime](Time)
ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
offsets = st.timedeltas(min_value=timedelta(hours=-23), max_value=timedelta(hours=23)).map(timezone)


def moment_in(microseconds: int, zone: tzinfo) -> datetime:
    return (EPOCH + timedelta(microseconds=microseconds)).astimezone(zone)


moments = st.builds(
    moment_in,
    st.integers(min_value=-62_135_510_400_000_000, max_value=253_402_214_400_000_000),
    st.just(UTC) | offsets,
)


def is_good(adapter: TypeAdapter[Any], value: object) -> bool:
    try:
        adapter.validate_python(value)
    except ValidationError:
        return False
    return True


@given(st.text(max_size=300))
def test_an_id_has_no_control_characters_and_no_space_at_its_ends(value: str) -> None:
    control = any(unicodedata.category(character) == "Cc" for character in value)
    assert is_good(IDS, value) == (1 <= len(value) <= 256 and not control and value == value.strip())


@pytest.mark.parametrize(
    "value", ["a", "01ARZ3NDEKTSV4RRFFQ69G5FAV", "a b", "é", "🐝" * 256, "%k", ">", "a.b", "a\u3000b"]
)
def test_an_id_may_be_any_other_text(value: str) -> None:
    assert IDS.validate_python(value) == value


@pytest.mark.parametrize(
    "space", [" ", "\t", "\n", "\r", "\x85", "\xa0", "\u1680", "\u2003", "\u2028", "\u202f", "\u3000"]
)
def test_no_kind_of_space_may_stand_at_an_end(space: str) -> None:
    assert not is_good(IDS, f"{space}a")
    assert not is_good(IDS, f"a{space}")
    assert not is_good(IDS, space)


@pytest.mark.parametrize(
    "value", ["", "a" * 257, "🐝" * 257, "a\x00b", "a\x1fb", "a\x7fb", "a\x9fb", "a\nb", "a\n", "\ud800", 5, None]
)
def test_what_is_no_id_is_refused(value: object) -> None:
    assert not is_good(IDS, value)


@pytest.mark.parametrize("root", NAMESPACE_ROOTS)
def test_a_namespace_starts_with_a_known_root(root: str) -> None:
    assert is_good(NAMESPACES, f"{root}:alice")
    assert is_good(NAMESPACES, f"{root}:alice:preferences")
    assert not is_good(NAMESPACES, root)
    assert not is_good(NAMESPACES, f"{root}s:alice")


@pytest.mark.parametrize(
    "value",
    [
        "",
        ":",
        "alice",
        "tenant:alice",
        "User:alice",
        ":user:alice",
        "user:",
        "user:a:",
        "user::a",
        "user:a\n",
        "user:" + "a" * 252,
    ],
)
def test_what_is_no_namespace_is_refused(value: str) -> None:
    assert not is_good(NAMESPACES, value)


@given(moments)
def test_a_time_comes_back_to_the_microsecond(moment: datetime) -> None:
    assert time_from_microseconds(microseconds_from_time(moment)) == moment
    assert TIMES.validate_json(TIMES.dump_json(moment)) == moment
    assert TIMES.dump_json(moment).decode() == f'"{format_time(moment)}"'


@given(moments, moments)
def test_times_compare_as_text_too(one: datetime, other: datetime) -> None:
    assert len(format_time(one)) == len("2026-01-31T09:30:00.000001Z")
    assert (format_time(one) < format_time(other)) == (one < other)


@given(st.integers(min_value=-62_135_596_800_000_000, max_value=253_402_300_799_999_999))
def test_microseconds_come_back_exactly(microseconds: int) -> None:
    moment = time_from_microseconds(microseconds)
    assert moment - EPOCH == timedelta(microseconds=microseconds)
    assert microseconds_from_time(moment) == microseconds


@given(moments)
def test_a_time_without_its_offset_is_refused(moment: datetime) -> None:
    assert not is_good(TIMES, moment.replace(tzinfo=None))


@pytest.mark.parametrize(
    "text", ["2026-01-31T09:30:00", "2026-01-31", "09:30", "0001-01-01T00:00:00+10:00", "9999-12-31T23:59:59-10:00"]
)
def test_a_text_that_is_no_moment_in_utc_is_refused(text: str) -> None:
    assert not is_good(TIMES, text)


def test_a_ulid_is_26_characters_of_its_alphabet() -> None:
    ids = {new_id() for _ in range(10_000)}
    assert len(ids) == 10_000
    assert all(len(made) == 26 and set(made) <= set(ALPHABET) and made[0] <= "7" for made in ids)
    assert all(is_good(IDS, made) for made in ids)


@given(st.lists(st.integers(min_value=0, max_value=2**48 - 1), min_size=2, max_size=20, unique=True))
def test_ulids_sort_by_the_millisecond_they_were_made_in(milliseconds: list[int]) -> None:
    assume(len(milliseconds) > 1)
    with pytest.MonkeyPatch.context() as patch:
        made: list[str] = []
        for millisecond in sorted(milliseconds):
            patch.setattr("time.time_ns", lambda now=millisecond: now * 1_000_000)
            made.append(new_id())
    assert all(one < other for one, other in pairwise(made))


@given(st.lists(st.text(st.sampled_from("ab/%25F é"), min_size=1, max_size=9), min_size=1, max_size=4))
def test_a_joined_id_is_an_id_and_splits_into_its_parts(parts: list[str]) -> None:
    assume(parts[0] == parts[0].lstrip() and parts[-1] == parts[-1].rstrip())
    joined = join_id(*parts)
    assert IDS.validate_python(joined) == joined
    assert split_id(joined) == tuple(parts)


@pytest.mark.parametrize("parts", [(), ("a", ""), ("a" * 200, "b" * 56), ("a\n", "b"), (" a", "b"), ("a", "b ")])
def test_parts_that_make_no_id_are_refused(parts: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="parts: "):
        join_id(*parts)


@pytest.mark.parametrize("joined", ["", "a//b", "/a", "a%", "a%2f", "a%41"])
def test_only_a_joined_id_is_split(joined: str) -> None:
    with pytest.raises(ValueError, match="not made by join_id"):
        split_id(joined)
