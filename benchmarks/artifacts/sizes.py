"""The sizes and counts of the measurements."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Sizes:
    rounds: int
    large_bytes: int
    """The bytes of the file that goes over the bus."""

    presigned_bytes: int
    small_files: int
    """The number of small files in one turn."""


FULL: Final = Sizes(rounds=3, large_bytes=1024**3, presigned_bytes=256 * 1024**2, small_files=10_000)
QUICK: Final = Sizes(rounds=2, large_bytes=128 * 1024**2, presigned_bytes=64 * 1024**2, small_files=1_000)

SMALL_BYTES: Final = 4_096
AT_ONCE: Final = 50
