"""Sources of an upload: a path, bytes, a file object or an iterator, read in chunks of one size."""

import asyncio
import io
import os
from collections import deque
from collections.abc import AsyncIterable, AsyncIterator
from pathlib import Path
from typing import BinaryIO, Final, Protocol

from hivemem.threads import to_the_end
from hivemem_contracts.errors import InvalidRequest, Unavailable

KEPT_CHUNKS: Final = 64
"""The number of chunks kept from a source that cannot be read twice, in case the worker loses them."""

BytesSource = bytes | bytearray | memoryview | str | os.PathLike[str] | BinaryIO | AsyncIterable[bytes]
"""The types that can be uploaded: text is a path."""


class Source(Protocol):
    """Gives the chunks of a source by number, one at a time."""

    @property
    def size(self) -> int | None:
        """The size of the source, if known before it is read."""
        ...

    async def chunk(self, index: int, chunk_bytes: int) -> bytes:
        """Return a chunk: shorter only at the end, and empty after it.

        Raises `Unavailable` for a chunk that is no longer kept. The size of chunks may change until chunks are
        forgotten.
        """
        ...

    def forget(self, before: int) -> None:
        """Forget the chunks before this one."""
        ...

    async def close(self) -> None: ...


class BytesInMemory:
    def __init__(self, data: bytes | bytearray | memoryview) -> None:
        self._data = memoryview(data).cast("B")

    @property
    def size(self) -> int | None:
        return self._data.nbytes

    async def chunk(self, index: int, chunk_bytes: int) -> bytes:
        return bytes(self._data[index * chunk_bytes : (index + 1) * chunk_bytes])

    def forget(self, before: int) -> None:
        del before

    async def close(self) -> None: ...


class SeekableFile:
    """A file from its current position to its end. It is read in a thread, and its position is restored."""

    def __init__(self, file: BinaryIO, *, ours: bool) -> None:
        self._file = file
        self._ours = ours
        self._start = file.tell()
        self._size = file.seek(0, io.SEEK_END) - self._start
        file.seek(self._start)

    @property
    def size(self) -> int | None:
        return self._size

    async def chunk(self, index: int, chunk_bytes: int) -> bytes:
        start = index * chunk_bytes
        return await to_the_end(self._read, start, min(chunk_bytes, max(self._size - start, 0)))

    def _read(self, start: int, length: int) -> bytes:
        self._file.seek(self._start + start)
        data = self._file.read(length)
        if len(data) < length:
            raise InvalidRequest("source: the file became shorter while it was read", field="source")
        return data

    def forget(self, before: int) -> None:
        del before

    async def close(self) -> None:
        if self._ours:
            await asyncio.to_thread(self._file.close)


class Stream:
    """An iterator of pieces of any size. The last chunks are kept, in case a worker needs them again."""

    def __init__(self, pieces: AsyncIterable[bytes]) -> None:
        self._pieces = aiter(pieces)
        self._rest = bytearray()
        self._kept: deque[bytes] = deque()
        self._first = 0
        self._chunk_bytes = 0
        self._ended = False

    @property
    def size(self) -> int | None:
        return None

    async def chunk(self, index: int, chunk_bytes: int) -> bytes:
        if chunk_bytes != self._chunk_bytes:
            self._split_anew(chunk_bytes)
        while index >= self._first + len(self._kept):
            data = await self._next(chunk_bytes)
            if not data:
                return b""
            self._kept.append(data)
            if len(self._kept) > KEPT_CHUNKS:
                self.forget(self._first + 1)
        if index < self._first:
            raise Unavailable(
                "the worker lost its chunks, and the source cannot be read again", reason="source", chunk=index
            )
        return self._kept[index - self._first]

    def _split_anew(self, chunk_bytes: int) -> None:
        assert self._first == 0, "nothing is forgotten yet"
        self._rest[:0] = b"".join(self._kept)
        self._kept.clear()
        self._chunk_bytes = chunk_bytes

    async def _next(self, chunk_bytes: int) -> bytes:
        while len(self._rest) < chunk_bytes and not self._ended:
            try:
                self._rest += await anext(self._pieces)
            except StopAsyncIteration:
                self._ended = True
        data = bytes(self._rest[:chunk_bytes])
        del self._rest[:chunk_bytes]
        return data

    def forget(self, before: int) -> None:
        while self._kept and self._first < before:
            self._kept.popleft()
            self._first += 1

    async def close(self) -> None: ...


def is_path(source: BytesSource) -> bool:
    return isinstance(source, str | os.PathLike)


async def open_source(source: BytesSource) -> Source:
    """Open a source. Raises `InvalidRequest` if it cannot be read."""
    if isinstance(source, bytes | bytearray | memoryview):
        return BytesInMemory(source)
    if isinstance(source, str | os.PathLike):
        try:
            return SeekableFile(await asyncio.to_thread(Path(source).open, "rb"), ours=True)
        except OSError as error:
            raise InvalidRequest(f"source: {error}", field="source") from error
    if isinstance(source, AsyncIterable):
        return Stream(source)
    if source.seekable():
        return SeekableFile(source, ours=False)
    return Stream(_pieces(source))


async def _pieces(file: BinaryIO) -> AsyncIterator[bytes]:
    while piece := await asyncio.to_thread(file.read, 256 * 1024):
        yield piece
