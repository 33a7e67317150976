"""The deletion of a file: how far it has got with letting go of the bytes of its versions."""

from dataclasses import dataclass
from typing import Final

from hivemem_runtime.ledger.entity import Index, record_entity


@dataclass(frozen=True, slots=True)
class Deletion:
    """Head and record alike; its id is that of the artifact. While it is running nothing is saved under the name.

    All versions through `through` go; those through `released` have let go of their bytes. `actor` and `cause` are
    those of the erasure at its end, so that whoever finishes it does the same.
    """

    through: int
    released: int
    begun_at: int
    actor: str
    cause: str
    running: bool = True


DELETION: Final = record_entity(
    "artifact_deletion",
    Deletion,
    indexed=lambda deletion: {"begun_at": deletion.begun_at, "running": deletion.running},
    indexes=(Index("running", (), "begun_at", only="running"), Index("recent", (), "begun_at")),
)
