"""A clock that goes on while the process, or the whole machine, stands still."""

import time
from typing import Final

_BOOT_CLOCK: Final = getattr(time, "CLOCK_BOOTTIME", None)


def now() -> float:
    """Seconds since some fixed moment."""
    return time.monotonic() if _BOOT_CLOCK is None else time.clock_gettime(_BOOT_CLOCK)
