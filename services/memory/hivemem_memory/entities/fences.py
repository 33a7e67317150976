"""Fences of erasures: a write published before a fence may not bring erased data back."""

from dataclasses import dataclass
from typing import Final

from hivemem_runtime.ledger.entity import record_entity


@dataclass(frozen=True, slots=True)
class Fence:
    """The fence of one place. Head and record have the same shape; the id is the place of a memory or of a
    namespace."""

    at: int


FENCE: Final = record_entity("fence", Fence)
