"""How much of an erasure the index has followed, until that is confirmed. Its id is the erasure's receipt."""

from dataclasses import dataclass
from typing import Final

from hivemem_runtime.ledger.entity import Index, record_entity


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
