"""Workspaces. Each version is a record of its listings and counts, and the head is the newest version."""

from dataclasses import asdict, dataclass
from typing import Any, Final

from hivemem_contracts.identifiers import format_microseconds
from hivemem_contracts.subjects import Address, change_subject
from hivemem_runtime.ledger.entity import Announcement, Entity, Index, Stamp


@dataclass(frozen=True, slots=True)
class WorkspaceRecord:
    """One version of a workspace.

    `listings` are its files in the order of their paths: the hash of each listing, and its last path.
    """

    listings: list[list[str]]
    files: int
    bytes: int
    added: int
    changed: int
    removed: int
    agent_id: str | None = None
    cycle: int | None = None
    message: str | None = None


@dataclass(frozen=True, slots=True)
class WorkspaceHead(WorkspaceRecord):
    """The newest version, with the first version since the last deletion. Versions continue after a deletion."""

    version: int = 0
    first_version: int = 0
    created_by: str = ""
    created_at: int = 0


def evolve_workspace(head: WorkspaceHead | None, record: WorkspaceRecord, stamp: Stamp) -> WorkspaceHead:
    return WorkspaceHead(
        record.listings,
        record.files,
        record.bytes,
        record.added,
        record.changed,
        record.removed,
        record.agent_id,
        record.cycle,
        record.message,
        stamp.version,
        stamp.version if head is None else head.first_version,
        stamp.actor,
        stamp.at,
    )


def workspace_fields(workspace_id: str, version: WorkspaceHead) -> dict[str, Any]:
    """Return the wire format of a version, for the feed and for answers."""
    fields = asdict(version)
    del fields["listings"], fields["first_version"]
    return {
        "workspace_id": workspace_id,
        **fields,
        "created_at": format_microseconds(version.created_at),
    }


def announce_workspace(record: WorkspaceRecord, stamp: Stamp) -> tuple[Announcement, ...]:
    value = workspace_fields(stamp.id, evolve_workspace(None, record, stamp))
    previous = stamp.version - 1 or None
    return (Announcement("workspace", "committed", Address((stamp.id,)), stamp.id, stamp.version, previous, value),)


def announce_workspace_deleted(stamp: Stamp) -> tuple[Announcement, ...]:
    address, previous = Address((stamp.id,)), stamp.version - 1
    return (Announcement("workspace", "deleted", address, stamp.id, stamp.version, previous, None),)


def require_announceable_workspace(tenant: str, workspace_id: str) -> None:
    """Raise `TooLarge` if the changes would exceed the subject limit, because every write must be announced."""
    change_subject(tenant, "workspace", Address((workspace_id,)))


WORKSPACE: Final = Entity(
    name="workspace",
    head=WorkspaceHead,
    record=WorkspaceRecord,
    evolve=evolve_workspace,
    announce=announce_workspace,
    told_as={"workspace": lambda workspace_id, key: workspace_id},
    announce_erased=announce_workspace_deleted,
    indexed=lambda head: {},
    indexes=(Index("id", (), None),),
    snapshot_every=1,
)
