"""A file: every version is a record that holds all of it but the bytes, and the head is the newest one."""

from dataclasses import dataclass
from typing import Any, Final

from hivemem_artifacts.entities.places import place_of, session_and_name
from hivemem_contracts.artifacts.urls import ArtifactUrl
from hivemem_contracts.identifiers import derived_id, format_microseconds
from hivemem_contracts.subjects import Address, change_subject
from hivemem_runtime.ledger.entity import Announcement, Entity, Index, Stamp


@dataclass(frozen=True, slots=True)
class ArtifactRecord:
    """One version. `blob` is the name of its bytes in the store; while it is there, so are they."""

    blob: str
    size: int
    sha256: str
    content_type: str
    metadata: dict[str, Any]


@dataclass(frozen=True, slots=True)
class ArtifactHead(ArtifactRecord):
    """The newest version, and the first one of this life: after a deletion the numbers go on."""

    version: int
    first_version: int
    created_by: str
    created_at: int


def evolve_artifact(head: ArtifactHead | None, record: ArtifactRecord, stamp: Stamp) -> ArtifactHead:
    return ArtifactHead(
        record.blob,
        record.size,
        record.sha256,
        record.content_type,
        record.metadata,
        stamp.version,
        stamp.version if head is None else head.first_version,
        stamp.actor,
        stamp.at,
    )


def version_fields(tenant: str, place: str, version: ArtifactHead) -> dict[str, Any]:
    """A version as it travels, on the feed and in answers."""
    session_id, name = session_and_name(place)
    return {
        "artifact_id": derived_id("artifact", tenant, session_id, name),
        "session_id": session_id,
        "name": name,
        "version": version.version,
        "size": version.size,
        "sha256": version.sha256,
        "content_type": version.content_type,
        "metadata": version.metadata,
        "url": str(ArtifactUrl(tenant, session_id, name, version.version)),
        "created_by": version.created_by,
        "created_at": format_microseconds(version.created_at),
    }


def announce_artifact(record: ArtifactRecord, stamp: Stamp) -> tuple[Announcement, ...]:
    session_id, name = session_and_name(stamp.id)
    value = version_fields(stamp.tenant, stamp.id, evolve_artifact(None, record, stamp))
    previous = stamp.version - 1 or None
    address = Address((session_id,), name)
    return (Announcement("artifact", "saved", address, session_id, stamp.version, previous, value, name),)


def announce_deleted(stamp: Stamp) -> tuple[Announcement, ...]:
    session_id, name = session_and_name(stamp.id)
    address, previous = Address((session_id,), name), stamp.version - 1
    return (Announcement("artifact", "deleted", address, session_id, stamp.version, previous, None, name),)


def require_announceable(tenant: str, session_id: str, name: str) -> None:
    """Raise `TooLarge` where the changes would have too long a subject: nothing may be kept that cannot be told."""
    change_subject(tenant, "artifact", Address((session_id,), name))


ARTIFACT: Final = Entity(
    name="artifact",
    head=ArtifactHead,
    record=ArtifactRecord,
    evolve=evolve_artifact,
    announce=announce_artifact,
    told_as={"artifact": lambda session_id, name: place_of(session_id, name or "")},
    announce_erased=announce_deleted,
    indexed=lambda head: {"created_at": head.created_at},
    indexes=(Index("place", (), None), Index("recent", (), "created_at")),
    snapshot_every=1,
)
