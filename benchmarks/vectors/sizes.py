"""How much is measured."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Sizes:
    rounds: int
    """How many turns each contender has; the median of them counts."""

    memories: int
    """Among which is searched."""

    recalls: int
    """One after the other, in one turn."""

    compared: int
    """Questions whose answers are compared with those of an exact search."""

    embedded: int
    """Memories that the offline model embeds, for the share of it that the pipeline leaves unused."""

    puts: int
    """One after the other, in one turn, with indexing and without."""


FULL: Final = Sizes(rounds=5, memories=100_000, recalls=60, compared=100, embedded=600, puts=500)
QUICK: Final = Sizes(rounds=3, memories=5_000, recalls=20, compared=30, embedded=150, puts=300)

BATCH: Final = 500
FOUND: Final = 10
AGENTS: Final = 8
"""How many ask at once."""
