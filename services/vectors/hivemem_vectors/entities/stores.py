"""The collections of the vector store that were made once: one that is missing after that was lost."""

from dataclasses import dataclass
from typing import Final

from hivemem_runtime.ledger.entity import Index, record_entity

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
