"""Reads the bytes of files of a workspace: many small files, or a part of a large one, with each request."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import orjson
from nats.aio.msg import Msg

from hivemem.downloading import judge_bytes
from hivemem.retries import ask
from hivemem.uploading import Progress
from hivemem_contracts.artifacts.replies import WorkspacePage
from hivemem_contracts.errors import Internal
from hivemem_contracts.limits import WORKSPACE_RANGES

if TYPE_CHECKING:
    from hivemem.hive import Hive

REQUESTS_AHEAD: Final = 8


class BlobRange(NamedTuple):
    """A range of the bytes with a hash."""

    sha256: str
    offset: int
    length: int


Piece = tuple[BlobRange, memoryview]
"""A range with its bytes."""


class BlobReader:
    """Reads blobs in order, several requests ahead."""

    def __init__(self, hive: "Hive", page: WorkspacePage, progress: Progress | None) -> None:
        self._hive = hive
        self._page = page
        self._progress = progress
        self.done = 0

    async def pieces(self, blobs: Sequence[tuple[str, int]]) -> AsyncGenerator[list[Piece], None]:
        """Yield the bytes of blobs, given with their sizes, in order and in lists of pieces."""
        total = sum(size for _, size in blobs)
        ahead: deque[tuple[list[BlobRange], asyncio.Task[Msg]]] = deque()
        requests = _requests(blobs, self._page.read_bytes)
        try:
            while True:
                while len(ahead) < REQUESTS_AHEAD and (ranges := next(requests, None)) is not None:
                    ahead.append((ranges, asyncio.create_task(self._ask(ranges))))
                if not ahead:
                    return
                ranges, answer = ahead[0]
                data = (await answer).data
                ahead.popleft()
                if len(data) != sum(each.length for each in ranges):
                    raise Internal("artifacts: an answer has other bytes than were asked for")
                yield _split(ranges, data)
                self.done += len(data)
                if self._progress is not None:
                    self._progress(self.done, total)
        finally:
            for _, task in ahead:
                task.cancel()
            await asyncio.gather(*(task for _, task in ahead), return_exceptions=True)

    async def _ask(self, ranges: list[BlobRange]) -> Msg:
        return await ask(
            self._hive.connection,
            self._page.read_subject,
            orjson.dumps([tuple(each) for each in ranges]),
            None,
            self._hive.options,
            "artifacts: bytes of a workspace",
            judge=judge_bytes,
        )


def _requests(blobs: Sequence[tuple[str, int]], most: int) -> Iterator[list[BlobRange]]:
    """Yield the ranges of each request."""
    if most <= 0:
        raise Internal("artifacts: the worker answers no bytes of workspaces")
    ranges: list[BlobRange] = []
    room = most
    for sha256, size in blobs:
        offset = 0
        while offset < size:
            length = min(size - offset, room)
            ranges.append(BlobRange(sha256, offset, length))
            offset += length
            room -= length
            if not room or len(ranges) == WORKSPACE_RANGES:
                yield ranges
                ranges, room = [], most
    if ranges:
        yield ranges


def _split(ranges: list[BlobRange], data: bytes) -> list[Piece]:
    pieces: list[Piece] = []
    start = 0
    for each in ranges:
        pieces.append((each, memoryview(data)[start : start + each.length]))
        start += each.length
    return pieces
