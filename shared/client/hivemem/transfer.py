"""Memories as JSON lines: any number of them, in the memory of one page.

The first line is a header, `{"hivemem": "memory", "schema": 1, "prefix": …, "as_of": …}`; each further line is a memory
as `memory.import` accepts it.
"""

import asyncio
import os
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

import orjson

from hivemem.lines import FILE_BYTES, FilePath
from hivemem_contracts.identifiers import format_time
from hivemem_contracts.limits import LIST_MAXIMUM

if TYPE_CHECKING:
    from hivemem.hive import Hive

SCHEMA: Final = 1


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of a transfer."""

    memories: int
    bytes: int
    fraction: float | None
    """The finished share, from 0 to 1; None if the total is unknown."""


@dataclass(frozen=True, slots=True)
class Exported:
    """The result of an export."""

    prefix: str
    as_of: datetime
    memories: int
    bytes: int


async def export_lines(hive: "Hive", prefix: str, as_of: datetime | None) -> AsyncIterator[str]:
    """Yield the header and then a line for each memory, all as of one moment, without line ends."""
    cursor: str | None = None
    while True:
        page = await hive.memory.export(prefix=prefix, as_of=as_of, limit=LIST_MAXIMUM, cursor=cursor)
        if cursor is None:
            yield orjson.dumps(
                {"hivemem": "memory", "schema": SCHEMA, "prefix": prefix, "as_of": format_time(page.as_of)}
            ).decode()
        for item in page.items:
            yield item.model_dump_json(exclude_defaults=True)
        cursor = page.cursor
        if cursor is None:
            return


async def export_to(
    hive: "Hive",
    target: FilePath | IO[bytes],
    prefix: str,
    as_of: datetime | None,
    progress: Callable[[Progress], None] | None,
) -> Exported:
    total = (await hive.memory.count(prefix=prefix)).count if progress is not None else 0
    memories, size, header = -1, 0, ""
    waiting: list[bytes] = []
    waiting_bytes = 0
    async with _written(target) as file:
        async for line in export_lines(hive, prefix, as_of):
            header = header or line
            memories += 1
            waiting.append(line.encode() + b"\n")
            waiting_bytes += len(waiting[-1])
            if waiting_bytes >= FILE_BYTES:
                await asyncio.to_thread(file.writelines, waiting)
                size += waiting_bytes
                waiting, waiting_bytes = [], 0
                if progress is not None:
                    progress(Progress(memories, size, min(memories / total, 1.0) if total else None))
        await asyncio.to_thread(file.writelines, waiting)
        await asyncio.to_thread(file.flush)
    size += waiting_bytes
    if progress is not None:
        progress(Progress(memories, size, 1.0))
    return Exported(prefix, datetime.fromisoformat(orjson.loads(header)["as_of"]), memories, size)


@asynccontextmanager
async def _written(target: FilePath | IO[bytes]) -> AsyncGenerator[IO[bytes], None]:
    """Open a file to write to. A path gets the file only when it is complete, so that nobody reads a partial one."""
    if not isinstance(target, str | os.PathLike):
        yield target
        return
    path = Path(target)
    part = path.with_name(path.name + ".part")
    try:
        with await asyncio.to_thread(part.open, "wb") as file:
            yield file
        await asyncio.to_thread(part.replace, path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
