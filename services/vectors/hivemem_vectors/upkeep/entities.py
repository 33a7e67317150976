"""The state of upkeep: sweeps, collections that were made, and erasures that are not confirmed."""

from dataclasses import dataclass, field
from typing import Final

from hivemem_runtime.ledger.entity import Index, record_entity


@dataclass(frozen=True, slots=True)
class Sweep:
    """The progress of a tenant's sweep. Its id is the tenant; times are microseconds since 1970.

    While it is `running`, `worker` sweeps, and was last active at `beat_at`. `cursor` is where it continues, None at
    the beginning. It restores the collections in `lost`, and the next sweep those in `wanted`; until then they are
    incomplete. With `outdated`, the next sweep comes soon, because points have words of an earlier scheme.
    """

    began_at: int
    running: bool = False
    worker: str = ""
    beat_at: int = 0
    cursor: str | None = None
    wanted: list[str] = field(default_factory=list[str])
    lost: list[str] = field(default_factory=list[str])
    outdated: bool = False


SWEEP: Final = record_entity("sweep", Sweep, history=False)


EVERYBODY: Final = "hivemem"
"""The tenant of records that concern all tenants, so that one read finds them."""


@dataclass(frozen=True, slots=True)
class MadeCollection:
    """A collection that was made once. It is `lost` until every tenant has a note to restore its points."""

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
    """The items that the index has removed for an erasure, and the time of the last one. `confirmed` is set once the
    memory service knows of all of them."""

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
