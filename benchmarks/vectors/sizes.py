"""The sizes and counts of the measurements."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Sizes:
    rounds: int
    """The number of turns of each contender; their median counts."""

    memories: int
    """The number of memories in the index."""

    recalls: int
    """The number of questions in one turn, one after the other."""

    compared: int
    """The number of questions whose answers are compared with an exact search."""

    embedded: int
    """The number of memories that the offline model embeds, to measure its idle time in the pipeline."""

    puts: int
    """The number of puts in one turn, one after the other, with indexing and without."""


FULL: Final = Sizes(rounds=5, memories=100_000, recalls=60, compared=100, embedded=600, puts=500)
QUICK: Final = Sizes(rounds=3, memories=5_000, recalls=20, compared=30, embedded=150, puts=300)

BATCH: Final = 500
FOUND: Final = 10
AGENTS: Final = 8
"""The number of concurrent callers."""
