"""Until when what is erased was written: what waits in the stream since before may not bring any of it back."""

from dataclasses import dataclass
from typing import Final

from hivemem_runtime.ledger.entity import record_entity


@dataclass(frozen=True, slots=True)
class Fence:
    """Head and record alike; its id is the place of the memory, or of the namespace with all below it."""

    at: int


FENCE: Final = record_entity("fence", Fence)
