"""Sessions. A record is one revision, and may hold an event."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from hivemem_contracts.subjects import Address
from hivemem_runtime.ledger.entity import Announcement, Entity, Index, Scalar, Stamp
from hivemem_runtime.merge_patch import merge_patch
from hivemem_sessions.entities.announcements import announce_session
from hivemem_sessions.entities.state import SNAPSHOT_EVERY, State, StateChange, is_own, merge
from hivemem_sessions.entities.state_indexes import STATE_INDEX_DECLARATIONS, indexed_state

INDEXED: Final = "indexed"
"""The kind of a record that only gives a session the newest declaration of its app. It announces nothing and leaves
`updated_at`."""


@dataclass(slots=True)
class SessionHead:
    """The newest revision of a session. `state` holds the session's own keys; times are microseconds since 1970. Treat
    it as immutable: a frozen dataclass takes seven times as long to construct, and every write constructs one.

    `segments` lists the sessions that contribute events to a fork, oldest first: the session id, the last sequence it
    contributes, and its `offset`. `machine` includes the definition, so that an append reads nothing else. If an erased
    session had the same id, `offset` is above all of its positions, because its forks may still share some of its
    events. `indexes` is a copy of what the app declares (see `App`), None if nothing.
    """

    app_name: str
    user_id: str
    project_id: str | None
    status: str
    state: State
    state_bytes: int
    metadata: dict[str, Any]
    event_count: int
    created_at: int
    updated_at: int
    terminated_at: int | None = None
    archived_at: int | None = None
    machine: dict[str, Any] | None = None
    origin: dict[str, Any] | None = None
    segments: list[list[Any]] = field(default_factory=list[list[Any]])
    offset: int = 0
    indexes: dict[str, Any] | None = None

    @property
    def indexes_declared(self) -> int:
        """The declaration of its app that the session has a copy of; 0 if none."""
        return 0 if self.indexes is None else int(self.indexes["declared"])


@dataclass(slots=True)
class SessionRecord:
    """One revision of a session. `opening` is the first head; `delta` is the delta as the caller sent it, with
    shared keys, `nulls` the keys set to null, and `metadata` a merge patch."""

    kind: str
    opening: dict[str, Any] | None = None
    sequence: int | None = None
    event: dict[str, Any] | None = None
    delta: State | None = None
    state_bytes: int | None = None
    status: str | None = None
    previous_status: str | None = None
    machine_state: str | None = None
    offset: int = 0
    metadata: dict[str, Any] | None = None
    project_id: str | None = None
    nulls: list[str] | None = None
    indexes: dict[str, Any] | None = None

    @property
    def position(self) -> int | None:
        return None if self.sequence is None else self.offset + self.sequence


def evolve_session(head: SessionHead | None, record: SessionRecord, stamp: Stamp) -> SessionHead:
    """Return the head after one more record."""
    if record.opening is not None:
        return SessionHead(**record.opening, created_at=stamp.at, updated_at=stamp.at)
    assert head is not None, "a session begins with its opening"
    status = record.status or head.status
    state = head.state
    if record.delta or record.nulls:
        state = merge(state, StateChange(record.delta or {}, record.nulls or ()).part(is_own))
    machine = head.machine
    if record.machine_state is not None:
        machine = {**(machine or {}), "state": record.machine_state}
    return SessionHead(
        head.app_name,
        head.user_id,
        head.project_id if record.project_id is None else record.project_id,
        status,
        state,
        head.state_bytes if record.state_bytes is None else record.state_bytes,
        head.metadata if record.metadata is None else merge_patch(head.metadata, record.metadata),
        head.event_count if record.sequence is None else record.sequence,
        head.created_at,
        head.updated_at if record.kind == INDEXED else stamp.at,
        stamp.at if record.status == "terminated" else head.terminated_at,
        stamp.at if record.status == "archived" else head.archived_at,
        machine,
        head.origin,
        head.segments,
        head.offset,
        head.indexes if record.indexes is None else record.indexes,
    )


def _index_session(head: SessionHead) -> Mapping[str, Scalar]:
    fields: dict[str, Scalar] = {
        "status": head.status,
        "app_name": head.app_name,
        "user_id": head.user_id,
        "project_id": head.project_id,
        "created_at": head.created_at,
        "updated_at": head.updated_at,
    }
    if head.indexes is not None:
        fields |= indexed_state(head.app_name, head.indexes["slots"], head.state)
    return fields


def _tag_event(record: SessionRecord) -> Mapping[str, str | None]:
    event = record.event or {}
    return {"type": event.get("type"), "author": event.get("author")}


def _announce_deleted(stamp: Stamp) -> tuple[Announcement, ...]:
    return (
        Announcement(
            "session", "deleted", Address((stamp.id,)), stamp.id, stamp.version, stamp.version - 1, value=None
        ),
    )


SESSION: Final = Entity(
    name="session",
    head=SessionHead,
    record=SessionRecord,
    evolve=evolve_session,
    announce=announce_session,
    told_as={"session": lambda namespace, key: namespace, "event": lambda namespace, key: namespace},
    announce_erased=_announce_deleted,
    indexed=_index_session,
    indexes=(
        Index("status", ("status",), "updated_at"),
        Index("user", ("user_id",), "created_at"),
        Index("project", ("project_id",), "created_at"),
        Index("app_and_user", ("app_name", "user_id"), "created_at"),
        Index("app", ("app_name",), "created_at"),
        Index("creation", (), "created_at"),
        Index("status_by_creation", ("status",), "created_at"),
        # Every append moves its session in the indexes by update, so there are few.
        Index("user_by_update", ("user_id",), "updated_at"),
        Index("update", (), "updated_at"),
        *STATE_INDEX_DECLARATIONS,
    ),
    position=lambda record: record.position,
    tag_fields=("type", "author"),
    tags=_tag_event,
    snapshot_every=SNAPSHOT_EVERY,
)
