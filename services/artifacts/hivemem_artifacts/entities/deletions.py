"""Deletions of artifacts and of workspaces, with their progress in releasing bytes."""

from dataclasses import dataclass
from typing import Final

from hivemem_runtime.ledger.entity import Index, record_entity


@dataclass(frozen=True, slots=True)
class Deletion:
    """A deletion. Head and record have the same shape; the id is that of the artifact or workspace. While it is
    running, nothing can be saved under it.

    All versions through `through` are deleted; those through `released` have released their bytes. `actor` and `cause`
    belong to the final erasure, so that any worker finishes it in the same way.
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
WORKSPACE_DELETION: Final = record_entity(
    "workspace_deletion",
    Deletion,
    indexed=lambda deletion: {"begun_at": deletion.begun_at, "running": deletion.running},
    indexes=(Index("running", (), "begun_at", only="running"),),
)
