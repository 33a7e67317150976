"""Blobs: the reference count of bytes in the store.

Bytes are kept while they are referenced, and for a grace period after that. Bytes saved again after their collection
begin a new life, which is another blob in the store, so that a late collector can only remove the old one.
"""

from dataclasses import dataclass
from typing import Final, Literal

from hivemem_runtime.ledger.entity import Index, record_entity

BlobState = Literal["present", "collecting", "absent"]


@dataclass(frozen=True, slots=True)
class Blob:
    """The record of some bytes. Head and record have the same shape; the id is the SHA-256. The bytes are in the store
    while the state is "present".

    It is "collecting" while the bytes are being removed, and "absent" after that.
    """

    state: BlobState
    size: int
    life: int
    refs: int = 0
    unreferenced_since: int | None = None

    @property
    def usable(self) -> bool:
        return self.state == "present"


def blob_name(sha256: str, life: int) -> str:
    """Return the name of the bytes in the store."""
    return f"{sha256}-{life}" if life else sha256


def sha256_and_life(blob: str) -> tuple[str, int]:
    sha256, _, life = blob.partition("-")
    return sha256, int(life or 0)


BLOB: Final = record_entity(
    "blob",
    Blob,
    indexed=lambda blob: {"unreferenced_since": blob.unreferenced_since},
    indexes=(Index("unreferenced", (), "unreferenced_since"),),
    history=False,
)
