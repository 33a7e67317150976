"""Clocks that jump while a worker runs: forward or back, by seconds to hours, and right again after a while."""

import asyncio
import random
import struct
import sys
from pathlib import Path
from typing import Final

from .striker import Strike

SHIFT: Final = struct.Struct("=q")
"""The nanoseconds that `clocked.py` adds to the time."""
PROGRAM: Final = str(Path(__file__).with_name("clocked.py"))
_HOURS: Final = 6
_WRONG_SECONDS: Final = (0.2, 4.0)


class Clock:
    """A file from which a worker's clock is read. `of` wraps a worker's command to start it on this clock."""

    def __init__(self, file: Path) -> None:
        self._file = file
        file.write_bytes(SHIFT.pack(0))

    def of(self, command: tuple[str, ...]) -> tuple[str, ...]:
        """Return the same command on this clock: `python -m MODULE …`, `python FILE …`, or a script of this
        environment."""
        words = command[1:] if command[0] == sys.executable else command
        return sys.executable, PROGRAM, str(self._file), *words

    def shift(self, seconds: float) -> None:
        with self._file.open("r+b", buffering=0) as file:
            file.write(SHIFT.pack(int(seconds * 1_000_000_000)))


def jump(clock: Clock, name: str) -> Strike:
    """Jump by seconds, minutes or hours, each with equal probability."""

    async def strike(choice: random.Random) -> str:
        seconds = (3600 * _HOURS) ** choice.random()
        forward = choice.random() < 0.5
        clock.shift(seconds if forward else -seconds)
        try:
            await asyncio.sleep(choice.uniform(*_WRONG_SECONDS))
        finally:
            clock.shift(0)
        return f"{name} clock {'ahead' if forward else 'behind'}"

    return strike
