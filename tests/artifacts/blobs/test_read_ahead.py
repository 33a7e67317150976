"""Reads fetch the following bytes in advance, and never return other bytes because of it."""

import asyncio

import pytest

from hivemem_artifacts.adapters.objects import read_ahead
from hivemem_artifacts.adapters.objects.read_ahead import WINDOW_BYTES, WINDOWS, ReadAhead
from hivemem_contracts.errors import NotFound

from .content import some_bytes

CHUNK = WINDOW_BYTES // 8
DATA = some_bytes(3 * WINDOW_BYTES - 1_000)


class Far:
    """An object store that counts its reads."""

    def __init__(self) -> None:
        self.fetched: list[tuple[int, int]] = []
        self.missing = False

    async def fetch(self, key: str, offset: int, length: int) -> bytes:
        self.fetched.append((offset, length))
        await asyncio.sleep(0)
        if self.missing:
            raise NotFound(key)
        return DATA[offset : offset + length]


async def read_through(ahead: ReadAhead, key: str = "a") -> bytes:
    offsets = range(0, len(DATA), CHUNK)
    return b"".join(await asyncio.gather(*(ahead.read(key, offset, CHUNK) for offset in offsets)))


async def test_one_who_reads_on_costs_a_request_a_window() -> None:
    far = Far()
    ahead = ReadAhead(far.fetch)
    assert await read_through(ahead) == DATA
    assert far.fetched[0] == (0, CHUNK)
    assert len(far.fetched) == 4


async def test_one_who_reads_here_and_there_gets_what_was_asked_for_and_no_more() -> None:
    far = Far()
    ahead = ReadAhead(far.fetch)
    offsets = [5 * CHUNK, 3 * CHUNK, 9 * CHUNK, 0]
    for offset in offsets:
        assert await ahead.read("a", offset, CHUNK) == DATA[offset : offset + CHUNK]
    assert far.fetched == [(offset, CHUNK) for offset in offsets]


async def test_a_piece_that_reaches_across_windows_is_whole() -> None:
    ahead = ReadAhead(Far().fetch)
    await ahead.read("a", 0, 100)
    size = WINDOW_BYTES + 100
    assert await ahead.read("a", 100, size) == DATA[100 : 100 + size]


async def test_past_the_end_there_is_nothing() -> None:
    ahead = ReadAhead(Far().fetch)
    await ahead.read("a", len(DATA) - CHUNK, CHUNK)
    assert await ahead.read("a", len(DATA), CHUNK) == b""


async def test_what_goes_wrong_is_told_to_each_and_tried_anew_by_the_next() -> None:
    far = Far()
    ahead = ReadAhead(far.fetch)
    await ahead.read("a", 0, CHUNK)
    far.missing = True
    outcomes = await asyncio.gather(
        *(ahead.read("a", place * CHUNK, CHUNK) for place in (1, 2, 3)), return_exceptions=True
    )
    assert [type(outcome) for outcome in outcomes] == [NotFound] * 3
    far.missing = False
    assert await ahead.read("a", CHUNK, CHUNK) == DATA[CHUNK : 2 * CHUNK]


async def test_what_is_removed_is_not_read_from_memory() -> None:
    far = Far()
    ahead = ReadAhead(far.fetch)
    await ahead.read("a", 0, CHUNK)
    await ahead.read("a", CHUNK, CHUNK)
    far.missing = True
    ahead.forget("a")
    with pytest.raises(NotFound):
        await ahead.read("a", 2 * CHUNK, CHUNK)
    await ahead.close()


async def test_so_many_windows_are_in_memory_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    far = Far()
    ahead = ReadAhead(far.fetch)
    keys = [str(number) for number in range(WINDOWS + 1)]
    for key in keys:
        await ahead.read(key, 0, CHUNK)
        await ahead.read(key, CHUNK, CHUNK)
    assert [length for _, length in far.fetched if length != CHUNK] == [WINDOW_BYTES - CHUNK] * WINDOWS
    assert far.fetched[-1] == (CHUNK, CHUNK)
    monkeypatch.setattr(read_ahead, "UNUSED_SECONDS", -1.0)
    await ahead.read(keys[-1], 2 * CHUNK, CHUNK)
    assert far.fetched[-1] == (2 * CHUNK, WINDOW_BYTES - 2 * CHUNK)
    await ahead.close()
