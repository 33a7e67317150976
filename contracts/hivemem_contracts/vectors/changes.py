"""What the vectors service announces, and what each change carries as its value."""

from typing import Final

from hivemem_contracts.changes import ChangeKind
from hivemem_contracts.vectors.models import IndexStatus

_ITEM: Final = ("namespace", "key")

CHANGES: Final[tuple[ChangeKind, ...]] = (
    ChangeKind(
        "index", "synced", IndexStatus, "A memory is found as it is now, or is not found any more.", _ITEM, keyed=True
    ),
    ChangeKind("index", "failed", IndexStatus, "A memory could not be indexed; it is tried again.", _ITEM, keyed=True),
)
