"""Reads of an object that follow one another: what comes next is fetched with it, in one request to the store.

Whoever gets a large file asks for one small piece after the other, and to the store a small one is as much work as one
several times its size. Where several workers share a download, the next piece seldom comes to the same one, and little
is fetched in vain.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

WINDOW_BYTES: Final = 4 * 1024 * 1024
"""What is fetched in one request ends at a multiple of this."""

WINDOWS: Final = 8
"""So many are in memory. Where more downloads are under way than that, the others read piece by piece."""

UNUSED_SECONDS: Final = 2.0
"""A window from which nothing was read for so long makes room for another one."""

KEYS: Final = 1_024
"""Of so many objects it is known where the last read ended."""

Fetch = Callable[[str, int, int], Awaitable[bytes]]
"""The bytes of an object from an offset on, at most so many; fewer only where it ends."""


@dataclass(slots=True)
class _Window:
    """Bytes of an object from `start` on, on their way or there."""

    start: int
    data: asyncio.Task[bytes]
    used: float


class ReadAhead:
    """Gives what `fetch` gives, and raises what it does."""

    def __init__(self, fetch: Fetch) -> None:
        self._fetch = fetch
        self._windows: dict[tuple[str, int], _Window] = {}
        """By the object and the number of the window in it."""
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
            self._drop(place, window)  # who reads on needs it no more
        return data[offset - window.start : end - window.start]

    def forget(self, key: str) -> None:
        """The object is being removed."""
        for place in [place for place in self._windows if place[0] == key]:
            del self._windows[place]

    async def close(self) -> None:
        """Wait for what is on its way."""
        self._windows.clear()
        await asyncio.gather(*self._fetches, return_exceptions=True)

    def _open(self, place: tuple[str, int], start: int) -> _Window | None:
        """None where there is no room."""
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
            fetch.exception()  # whoever waits for it is told; there may be nobody left

    def _drop(self, place: tuple[str, int], window: _Window) -> None:
        if self._windows.get(place) is window:
            del self._windows[place]
