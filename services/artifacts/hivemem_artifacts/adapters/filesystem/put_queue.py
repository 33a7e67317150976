"""The queue of small blobs. Blobs that arrive during a group write form the next group."""

import asyncio
from collections import deque
from typing import Final

from hivemem_artifacts.adapters.filesystem.layout import Layout
from hivemem_artifacts.adapters.filesystem.put_groups import SmallBlob, put_group
from hivemem_artifacts.adapters.threads import Threads

LANES: Final = 4
"""The number of groups written in parallel: one is prepared while another waits for the disk."""

GROUP: Final = 16
"""The maximum number of blobs in a group, whose files are open at the same time."""


class PutQueue:
    """Writes queued blobs in order of arrival. The queue is bounded by the callers, because each waits for its own
    blob."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._threads = Threads("blob-puts", LANES)
        self._waiting: deque[tuple[SmallBlob, asyncio.Future[None]]] = deque()
        self._lanes: set[asyncio.Task[None]] = set()

    async def put(self, blob: SmallBlob) -> None:
        """Write a blob, durable when this returns. A cancelled call may still write it."""
        written: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((blob, written))
        if len(self._lanes) < LANES:
            lane = asyncio.create_task(self._write_groups(), name="blob-puts")
            self._lanes.add(lane)
        await written

    async def close(self) -> None:
        """Write all queued blobs, then end the threads."""
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
            self._lanes.remove(lane)  # before any await, so that the next caller starts a lane of its own

    async def _write(self, group: list[tuple[SmallBlob, asyncio.Future[None]]]) -> None:
        try:
            failed = await self._threads.run(put_group, self._layout, [blob for blob, _ in group])
        except Exception as error:  # the callers get the error
            failed = dict.fromkeys(range(len(group)), error)
        for number, (_, written) in enumerate(group):
            if written.done():
                continue  # the caller was cancelled
            if number in failed:
                written.set_exception(failed[number])
            else:
                written.set_result(None)
