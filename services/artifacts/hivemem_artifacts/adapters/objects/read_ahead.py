"""Read-ahead for sequential reads: one request to the store fetches the next pieces too.

A download asks for many small pieces, and a small request costs the store as much as a larger one. If several workers
share a download, reads are rarely sequential, and little is fetched in vain.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

WINDOW_BYTES: Final = 4 * 1024 * 1024
"""The size of a window. A fetch ends at a multiple of it."""

WINDOWS: Final = 8
"""The maximum number of windows in memory. Further downloads read piece by piece."""

UNUSED_SECONDS: Final = 2.0
"""A window that was not read for this long makes room for another."""

KEYS: Final = 1_024
"""The maximum number of objects whose last read position is remembered."""

Fetch = Callable[[str, int, int], Awaitable[bytes]]
"""Fetch up to a number of bytes of an object from an offset; fewer only at its end."""


@dataclass(slots=True)
class _Window:
    """Bytes of an object from `start` on, fetched or being fetched."""

    start: int
    data: asyncio.Task[bytes]
    used: float


class ReadAhead:
    """Reads ahead with `fetch`, and raises its errors."""

    def __init__(self, fetch: Fetch) -> None:
        self._fetch = fetch
        self._windows: dict[tuple[str, int], _Window] = {}
        """The windows, by object and window number."""
        self._ends: dict[str, int] = {}
        self._fetches: set[asyncio.Task[bytes]] = set()

    async def read(self, key: str, offset: int, length: int) -> bytes:
        number, end = offset // WINDOW_BYTES, offset + length
        follows = self._ends.pop(key, None) == offset
        self._ends[key] = end
        if len(self._ends) > KEYS:
            del self._ends[next(iter(self._ends))]
        place = (key, number)
        window = self._windows.get(place)
        if window is None and follows and end < (number + 1) * WINDOW_BYTES:
            window = self._open(place, offset)
        if window is None or offset < window.start or end > (number + 1) * WINDOW_BYTES:
            return await self._fetch(key, offset, length)
        window.used = time.monotonic()
        try:
            data = await asyncio.shield(window.data)
        except Exception:
            self._drop(place, window)
            raise
        if end == (number + 1) * WINDOW_BYTES:
            self._drop(place, window)  # a sequential reader does not need it any more
        return data[offset - window.start : end - window.start]

    def forget(self, key: str) -> None:
        """Drop the windows of an object that is being removed."""
        for place in [place for place in self._windows if place[0] == key]:
            del self._windows[place]

    async def close(self) -> None:
        """Wait for running fetches."""
        self._windows.clear()
        await asyncio.gather(*self._fetches, return_exceptions=True)

    def _open(self, place: tuple[str, int], start: int) -> _Window | None:
        """Open a window, or return None if there is no room."""
        if len(self._windows) >= WINDOWS:
            before = time.monotonic() - UNUSED_SECONDS
            self._windows = {place: window for place, window in self._windows.items() if window.used > before}
            if len(self._windows) >= WINDOWS:
                return None
        key, number = place
        fetch = asyncio.create_task(self._fetched(key, start, (number + 1) * WINDOW_BYTES - start), name="blob-window")
        self._fetches.add(fetch)
        fetch.add_done_callback(self._ended)
        window = self._windows[place] = _Window(start, fetch, time.monotonic())
        return window

    async def _fetched(self, key: str, offset: int, length: int) -> bytes:
        return await self._fetch(key, offset, length)

    def _ended(self, fetch: asyncio.Task[bytes]) -> None:
        self._fetches.discard(fetch)
        if not fetch.cancelled():
            fetch.exception()  # a reader gets the error; without a reader it must be retrieved here

    def _drop(self, place: tuple[str, int], window: _Window) -> None:
        if self._windows.get(place) is window:
            del self._windows[place]
