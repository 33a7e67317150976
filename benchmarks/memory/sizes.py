"""The sizes and counts of the measurements."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Sizes:
    rounds: int
    """The number of turns of each contender; their median counts."""

    calls: int
    """The number of calls in one turn of one agent, one after the other."""

    agents: int
    seconds: float
    """The seconds for which all agents write, or read, at once, in one turn."""

    batches: int
    """The number of batches of 1,000 memories in one turn."""

    entries: int
    """The number of memories in the store when a prefix is listed."""

    snapshot: int
    versions: int
    """The number of versions of the memory that is read as of a moment."""


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
