"""Listings: the reference count of a part of a workspace's list of files.

A listing is a blob that lists files next to each other in the order of their paths. Versions share the listings of
unchanged parts. A listing holds one reference to its own blob and one to that of each file, however many versions refer
to the listing.
"""

from dataclasses import dataclass
from typing import Final

from hivemem_runtime.ledger.entity import Index, record_entity


@dataclass(frozen=True, slots=True)
class Listing:
    """The record of a listing. Head and record have the same shape; the id is the SHA-256 of its blob.

    While it is present, it holds its references. Without references to it, it is present for a grace period only.
    """

    present: bool
    refs: int = 0
    unreferenced_since: int | None = None


LISTING: Final = record_entity(
    "workspace_listing",
    Listing,
    indexed=lambda listing: {"unreferenced_since": listing.unreferenced_since},
    indexes=(Index("unreferenced", (), "unreferenced_since"),),
    history=False,
)
