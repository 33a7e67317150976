"""The sizes and counts of the measurements."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Sizes:
    rounds: int
    """The number of turns of each contender; their median counts."""

    cycles: int
    """The number of cycles in one turn of one agent, one after the other."""

    agents: int
    seconds: float
    """The seconds for which all agents go through cycles at once, in one turn."""

    kills: int
    """The number of killed programs of each contender in one turn."""

    runs: int
    """The number of runs of a workflow in one turn."""


FULL: Final = Sizes(rounds=5, cycles=100, agents=50, seconds=1.5, kills=3, runs=1_000)
QUICK: Final = Sizes(rounds=3, cycles=40, agents=50, seconds=1.0, kills=1, runs=200)
