"""How much is measured."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Sizes:
    rounds: int
    large_bytes: int
    """Of the file that goes over the bus."""

    presigned_bytes: int
    small_files: int
    """In one turn."""


FULL: Final = Sizes(rounds=3, large_bytes=1024**3, presigned_bytes=256 * 1024**2, small_files=10_000)
QUICK: Final = Sizes(rounds=2, large_bytes=128 * 1024**2, presigned_bytes=64 * 1024**2, small_files=1_000)

SMALL_BYTES: Final = 4_096
AT_ONCE: Final = 50
