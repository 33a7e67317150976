"""The state of upkeep: sweeps, collections that were made, and erasures that are not confirmed."""

from dataclasses import dataclass, field
from typing import Final

from hivemem_runtime.ledger.entity import Index, record_entity


@dataclass(frozen=True, slots=True)
class Sweep:
    """Head and record alike, kept under everybody; its id is the tenant. Times are microseconds since 1970.

    `worker` is at it while it is `running`, and was last at `beat_at`; `cursor` is where it goes on, None at its
    beginning. `lost` are collections that it brings back, and `wanted` those that the next one will: until then not all
    is found in them.
    """

    began_at: int
    running: bool = False
    worker: str = ""
    beat_at: int = 0
    cursor: str | None = None
    wanted: list[str] = field(default_factory=list[str])
    lost: list[str] = field(default_factory=list[str])


SWEEP: Final = record_entity("sweep", Sweep, history=False)


EVERYBODY: Final = "hivemem"
"""The tenant under which is kept what concerns all of them, so that it is known by one read."""


@dataclass(frozen=True, slots=True)
class MadeCollection:
    """Head and record alike; its id is its name. `lost` until every tenant is noted as one whose points are to be
    brought back."""

    lost: bool = False


MADE: Final = record_entity(
    "made_collection",
    MadeCollection,
    indexed=lambda head: {"lost": head.lost},
    indexes=(Index("lost", (), None, only="lost"),),
    history=False,
)


@dataclass(frozen=True, slots=True)
class Removal:
    """Head and record alike: items that were removed, and when the last one was; `confirmed` once all of them are
    told to the memory service."""

    removed: int
    last_at: int
    confirmed: bool = False


REMOVAL: Final = record_entity(
    "removal",
    Removal,
    indexed=lambda head: {"open": None if head.confirmed else head.last_at},
    indexes=(Index("open", (), "open"),),
    history=False,
)
