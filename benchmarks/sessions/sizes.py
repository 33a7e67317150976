"""How much is measured. The whole of a full run ends within six minutes on two cores."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Sizes:
    rounds: int
    """How many turns each contender has; the median of them counts."""

    appends: int
    """One after the other, in one turn of one agent."""

    sessions: int
    seconds: float
    """How long all sessions append at once, in one turn."""

    history: tuple[int, ...]
    """Lengths of a session at which appending and reading are looked at; the last one counts."""

    reads: int
    backlog: int
    """Durable commands that wait when the worker starts."""

    backlogs: int
    """How often that is done for each store."""

    stream: int
    """Durable commands that are published while the worker carries them out."""

    changes: int
    """How many changes a subscriber gets in one turn."""

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
"""Sessions that a backlog is spread over."""

CHANGES_A_SECOND: Final = 200
EVENTS_READ: Final = 50
