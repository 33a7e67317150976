"""The changes that the vectors service announces, each with the model of its value."""

from typing import Final

from hivemem_contracts.changes import ChangeKind
from hivemem_contracts.vectors.models import IndexStatus

_ITEM: Final = ("namespace", "key")

CHANGES: Final[tuple[ChangeKind, ...]] = (
    ChangeKind(
        "index",
        "synced",
        IndexStatus,
        "The newest version of a memory is indexed, or a deleted memory left the index.",
        _ITEM,
        keyed=True,
    ),
    ChangeKind("index", "failed", IndexStatus, "A memory could not be indexed; it is retried.", _ITEM, keyed=True),
)
