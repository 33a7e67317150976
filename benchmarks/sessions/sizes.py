"""The sizes and counts of the measurements. A full run ends within six minutes on two cores."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Sizes:
    rounds: int
    """The number of turns of each contender; their median counts."""

    appends: int
    """The number of calls in one turn of one agent, one after the other."""

    sessions: int
    seconds: float
    """The seconds for which all sessions append at once, in one turn."""

    history: tuple[int, ...]
    """Lengths of a session at which appends and reads are measured; the last one counts."""

    reads: int
    backlog: int
    """Durable commands that wait when the worker starts."""

    backlogs: int
    """The number of runs of the backlog for each store."""

    stream: int
    """Durable commands that are published while the worker carries them out."""

    changes: int
    """The number of changes that a subscriber gets in one turn."""

    starts: int


FULL: Final = Sizes(
    rounds=5,
    appends=300,
    sessions=50,
    seconds=1.5,
    history=(100, 1_000, 10_000, 100_000),
    reads=40,
    backlog=100_000,
    backlogs=2,
    stream=20_000,
    changes=400,
    starts=5,
)
QUICK: Final = Sizes(
    rounds=3,
    appends=100,
    sessions=50,
    seconds=1.0,
    history=(100, 1_000, 10_000),
    reads=20,
    backlog=20_000,
    backlogs=1,
    stream=10_000,
    changes=200,
    starts=2,
)

ROUTES: Final = 64
"""The number of sessions of a backlog."""

CHANGES_A_SECOND: Final = 200
EVENTS_READ: Final = 50
