"""How much is measured."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Sizes:
    rounds: int
    """How many turns each contender has; the median of them counts."""

    calls: int
    """One after the other, in one turn of one agent."""

    agents: int
    seconds: float
    """How long all agents write, or read, at once, in one turn."""

    batches: int
    """Of 1,000 memories each, in one turn."""

    entries: int
    """Among which a prefix is listed."""

    snapshot: int
    versions: int
    """Of one memory, among which a moment is looked for."""


FULL: Final = Sizes(
    rounds=5, calls=300, agents=50, seconds=1.5, batches=20, entries=1_000_000, snapshot=10_000, versions=10_000
)
QUICK: Final = Sizes(
    rounds=3, calls=100, agents=50, seconds=1.0, batches=6, entries=20_000, snapshot=2_000, versions=1_000
)

BATCH: Final = 1_000
BATCHES_AT_ONCE: Final = 4
LISTED: Final = 100
HISTORY: Final = 10
