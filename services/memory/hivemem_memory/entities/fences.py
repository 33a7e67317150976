"""Until when what is erased was written: what waits in the stream since before may not bring any of it back."""

from dataclasses import dataclass
from typing import Final

from hivemem_runtime.ledger.entity import Entity


@dataclass(frozen=True, slots=True)
class Fence:
    """Head and record alike; its id is the place of the memory, or of the namespace with all below it."""

    at: int


FENCE: Final = Entity(
    name="fence",
    head=Fence,
    record=Fence,
    evolve=lambda head, record, stamp: record,
    announce=lambda record, stamp: (),
    indexed=lambda head: {},
    snapshot_every=1,
)
