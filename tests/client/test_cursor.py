"""Cursors are opaque to their holder and exact to the nanosecond."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

import hivemem
from hivemem.cursor import StreamState, nanoseconds

NUMBERS = st.integers(0, 2**63 - 1)


@given(created=NUMBERS, sequence=NUMBERS, epoch=st.sampled_from(["", "1-a", "37-9f2cxz"]), stored_at=NUMBERS)
def test_a_cursor_is_read_as_it_was_written(created: int, sequence: int, epoch: str, stored_at: int) -> None:
    cursor = hivemem.Cursor(created, sequence, epoch, stored_at)

    assert hivemem.Cursor.parse(str(cursor)) == cursor


@pytest.mark.parametrize("text", ["", "yesterday", "c1", "c1-", "c-1", "cx-1", "c1-2-3", "c1-2@", "C1-2", "c1-2 "])
def test_what_is_no_cursor_is_refused(text: str) -> None:
    with pytest.raises(hivemem.InvalidRequest, match="since"):
        hivemem.Cursor.parse(text)


def test_times_of_the_server_keep_their_nanoseconds() -> None:
    assert nanoseconds("1970-01-01T00:00:01.000000001Z") == 1_000_000_001
    assert nanoseconds("1970-01-01T01:00:01.5+01:00") == 1_500_000_000
    assert nanoseconds("0001-01-01T00:00:00Z") < 0
    with pytest.raises(ValueError, match="RFC 3339"):
        nanoseconds("today")


@pytest.mark.parametrize("first_seq", [0, 8])
def test_an_empty_stream_begins_after_its_end(first_seq: int) -> None:
    state = {"messages": 0, "first_seq": first_seq, "last_seq": 7, "first_ts": "0001-01-01T00:00:00Z"}

    assert StreamState.of({"created": "2025-01-01T00:00:00Z", "config": {}, "state": state}).first == 8
