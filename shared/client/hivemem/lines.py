"""Reads the numbered lines of a file, a stream or an export, a few at a time."""

import asyncio
import os
import stat
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from hivemem_contracts.limits import MESSAGE_BYTES

FILE_BYTES: Final = 1 << 18
"""The bytes to read or write at a time."""

FilePath = str | os.PathLike[str]


@dataclass(frozen=True, slots=True)
class Line:
    number: int
    text: bytes
    end: int
    """The number of bytes up to the end of this line."""
    whole: bool = True


@asynccontextmanager
async def read_lines(
    source: FilePath | IO[bytes] | AsyncIterable[str],
) -> AsyncGenerator[tuple[AsyncIterator[Line], int | None], None]:
    """The lines, and their total size if known."""
    if isinstance(source, AsyncIterable):
        yield _lines_of(source), None
    elif isinstance(source, str | os.PathLike):
        with await asyncio.to_thread(Path(source).open, "rb") as file:
            yield _lines_in(file), _size_of(file)
    else:
        yield _lines_in(source), _size_of(source)


async def _lines_of(source: AsyncIterable[str]) -> AsyncIterator[Line]:
    number = end = 0
    async for text in source:
        line = text.encode()
        number, end = number + 1, end + len(line) + 1
        yield Line(number, line.strip(), end, len(line) <= MESSAGE_BYTES)


async def _lines_in(file: IO[bytes]) -> AsyncIterator[Line]:
    number = end = 0
    while pieces := await asyncio.to_thread(_some_lines, file):
        for text, length in pieces:
            number, end = number + 1, end + length
            yield Line(number, text.strip(), end, length <= MESSAGE_BYTES + 2)


def _some_lines(file: IO[bytes]) -> list[tuple[bytes, int]]:
    """Yield a few lines and their lengths at a time. Only the beginning of an oversized line is kept."""
    found: list[tuple[bytes, int]] = []
    read = 0
    while read < FILE_BYTES and (line := file.readline(MESSAGE_BYTES + 2)):
        length = len(line)
        end = line
        while len(end) == MESSAGE_BYTES + 2 and not end.endswith(b"\n") and (end := file.readline(MESSAGE_BYTES + 2)):
            length += len(end)
        found.append((line, length))
        read += length
    return found


def _size_of(file: IO[bytes]) -> int | None:
    try:
        status = os.fstat(file.fileno())
    except OSError:
        return None
    return status.st_size if stat.S_ISREG(status.st_mode) else None
