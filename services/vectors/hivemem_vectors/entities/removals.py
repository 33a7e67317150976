"""How much of an erasure the index has followed, until that is confirmed. Its id is the erasure's receipt."""

from dataclasses import dataclass
from typing import Final

from hivemem_runtime.ledger.entity import Entity, Index, announces_nothing


@dataclass(frozen=True, slots=True)
class Removal:
    """Head and record alike: items that were removed, and when the last one was; `confirmed` once all of them are
    told to the memory service."""

    removed: int
    last_at: int
    confirmed: bool = False


REMOVAL: Final = Entity(
    name="removal",
    head=Removal,
    record=Removal,
    evolve=lambda head, record, stamp: record,
    announce=announces_nothing,
    indexed=lambda head: {"open": None if head.confirmed else head.last_at},
    indexes=(Index("open", (), "open"),),
    snapshot_every=1,
    history=False,
)
