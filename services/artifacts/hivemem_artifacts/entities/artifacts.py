"""Artifacts. Each version is a complete record without the bytes, and the head is the newest version."""

from dataclasses import dataclass
from typing import Any, Final

from hivemem_artifacts.entities.places import place_of, session_and_name
from hivemem_contracts.artifacts.urls import ArtifactUrl
from hivemem_contracts.identifiers import derived_id, format_microseconds
from hivemem_contracts.subjects import Address, change_subject
from hivemem_runtime.ledger.entity import Announcement, Entity, Index, Stamp


@dataclass(frozen=True, slots=True)
class ArtifactRecord:
    """One version of an artifact. `blob` is the name of its bytes, which exist as long as the version."""

    blob: str
    size: int
    sha256: str
    content_type: str
    metadata: dict[str, Any]


@dataclass(frozen=True, slots=True)
class ArtifactHead(ArtifactRecord):
    """The newest version, with the first version since the last deletion. Versions continue after a deletion."""

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
    """Return the wire format of a version, for the feed and for answers."""
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
        "workspace_id": None,
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
    """Raise `TooLarge` if the changes would exceed the subject limit, because every write must be announced."""
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
