"""Small blobs on their way to the disk: those that come while others are being written are written next, together."""

import asyncio
from collections import deque
from typing import Final

from hivemem_artifacts.adapters.filesystem.groups import SmallBlob, put_group
from hivemem_artifacts.adapters.filesystem.layout import Layout
from hivemem_artifacts.adapters.threads import Threads

LANES: Final = 4
"""So many groups are written side by side: while one waits for the disk, another one is prepared."""

GROUP: Final = 16
"""The most blobs of one group: their files are open together."""


class Puts:
    """Writes what is waiting, in the order in which it came. Each caller waits for its own, so there is no more than
    there are callers."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._threads = Threads("blob-puts", LANES)
        self._waiting: deque[tuple[SmallBlob, asyncio.Future[None]]] = deque()
        self._lanes: set[asyncio.Task[None]] = set()

    async def put(self, blob: SmallBlob) -> None:
        """Durable when it returns. One that is cancelled may be written all the same."""
        written: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((blob, written))
        if len(self._lanes) < LANES:
            lane = asyncio.create_task(self._write_groups(), name="blob-puts")
            self._lanes.add(lane)
        await written

    async def close(self) -> None:
        """Write what is waiting, and end the threads."""
        if self._lanes:
            await asyncio.wait(self._lanes)
        await self._threads.close()

    async def _write_groups(self) -> None:
        try:
            while group := [self._waiting.popleft() for _ in range(min(GROUP, len(self._waiting)))]:
                await self._write(group)
        finally:
            lane = asyncio.current_task()
            assert lane is not None, "it runs as a task"
            self._lanes.remove(lane)  # at once: whoever comes after this must not count on it

    async def _write(self, group: list[tuple[SmallBlob, asyncio.Future[None]]]) -> None:
        try:
            failed = await self._threads.run(put_group, self._layout, [blob for blob, _ in group])
        except Exception as error:  # those who wait for it get to know
            failed = dict.fromkeys(range(len(group)), error)
        for number, (_, written) in enumerate(group):
            if written.done():
                continue  # it was cancelled
            if number in failed:
                written.set_exception(failed[number])
            else:
                written.set_result(None)
