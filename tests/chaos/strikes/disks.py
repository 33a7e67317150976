"""A disk that is full for a while."""

import asyncio
import random
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from hivemem_testing.process import ProcessServer

from .striker import Strike

_FULL_SECONDS: Final = (0.5, 4.0)
_TOP_UP_SECONDS: Final = 0.05
_CHUNK: Final = bytes(1024 * 1024)
_SMALLEST: Final = 4096
"""A page; less space is of no use to any program."""


def filling(disk: Path, restarted: Sequence[ProcessServer]) -> Strike:
    """Fill the disk for a while, then restart `restarted`. A nats-server that met a full disk stores nothing until its
    restart, which its operator does once there is room again."""
    filler = disk / "filler"

    async def strike(choice: random.Random) -> str:
        until = asyncio.get_running_loop().time() + choice.uniform(*_FULL_SECONDS)
        try:
            while asyncio.get_running_loop().time() < until:
                await asyncio.to_thread(fill, filler)
                await asyncio.sleep(_TOP_UP_SECONDS)  # also fill space that others have freed meanwhile
        finally:
            filler.unlink()
        for server in restarted:
            await asyncio.to_thread(server.restart)
        return f"{disk.name} full"

    return strike


def fill(filler: Path) -> None:
    chunk = _CHUNK
    with filler.open("ab", buffering=0) as file:
        while len(chunk) >= _SMALLEST:
            with suppress(OSError):
                if file.write(chunk) == len(chunk):
                    continue
            chunk = chunk[: len(chunk) // 2]
