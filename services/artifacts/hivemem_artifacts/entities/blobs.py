"""What the worker knows of bytes in the store: how many versions of artifacts have them.

Bytes live as long as they are used, and a grace time longer. When they are wanted again after they were collected, that
is another life, and they are another blob in the store: a collector that was held up can only remove the old one.
"""

from dataclasses import dataclass
from typing import Final, Literal

from hivemem_runtime.ledger.entity import Index, record_entity

BlobState = Literal["present", "collecting", "absent"]


@dataclass(frozen=True, slots=True)
class Blob:
    """Head and record alike; its id is the sha256. While it is "present" the bytes are in the store.

    "collecting" from the moment that they are to be removed until they are, "absent" after that.
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
    """What the bytes are called in the store."""
    return f"{sha256}-{life}" if life else sha256


def sha256_and_life(blob: str) -> tuple[str, int]:
    sha256, _, life = blob.partition("-")
    return sha256, int(life or 0)


BLOB: Final = record_entity(
    "blob",
    Blob,
    indexed=lambda blob: {"unreferenced_since": blob.unreferenced_since},
    indexes=(Index("unreferenced", (), "unreferenced_since"),),
)
