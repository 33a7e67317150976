"""The two clocks of a worker: one that measures how long something takes, one that tells the time."""

import time
from typing import Final

_BOOT_CLOCK: Final = getattr(time, "CLOCK_BOOTTIME", None)


def elapsed_seconds() -> float:
    """Return seconds since a fixed moment. This clock goes on while the process, or the whole machine, is suspended."""
    return time.monotonic() if _BOOT_CLOCK is None else time.clock_gettime(_BOOT_CLOCK)


def now_microseconds() -> int:
    """Return the time in microseconds since 1970."""
    return time.time_ns() // 1_000
