"""Memories. Each version is a complete record, and the head is the newest version."""

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final

import orjson

from hivemem_contracts.identifiers import derived_id, format_microseconds
from hivemem_contracts.limits import SUBJECT_BYTES
from hivemem_contracts.memory.models import Source
from hivemem_contracts.subjects import Address, change_subject
from hivemem_runtime.ledger.entity import Announcement, Entity, Index, Scalar, Stamp
from hivemem_runtime.ledger.places import namespace_and_key, place_of, scope_of

ANNOUNCED_AS: Final[Mapping[str, str]] = {
    "put": "put",
    "patch": "put",
    "fork": "put",
    "import": "put",
    "delete": "deleted",
    "expire": "deleted",
    "restore": "restored",
    "unlink": "put",
}


@dataclass(slots=True)
class MemoryRecord:
    """One version of a memory; times are microseconds since 1970. A deletion has no value.

    Treat it as immutable: a frozen dataclass takes seven times as long to construct, and every write constructs one.
    `created_at` is None in the first version, because its time is known only after the commit. `erased_at` is set in
    the first version after an erasure. `index` has the texts by which recall finds the memory, false, or None for its
    own text.
    """

    operation: str
    value: Any
    memory_type: str
    metadata: dict[str, Any]
    digest: str
    created_by: str
    created_at: int | None = None
    deleted: bool = False
    importance: float | None = None
    valid_from: int | None = None
    valid_to: int | None = None
    expires_at: int | None = None
    source: dict[str, Any] | None = None
    copied_from: dict[str, Any] | None = None
    erased_at: int | None = None
    index: Any = None


@dataclass(slots=True)
class MemoryHead:
    """The newest version of a memory. A deleted one keeps its last value for a restore. `erased_at` is the time of
    the last erasure of the key."""

    version: int
    scope: str
    value: Any
    memory_type: str
    metadata: dict[str, Any]
    digest: str
    created_by: str
    created_at: int
    updated_by: str
    updated_at: int
    deleted: bool = False
    importance: float | None = None
    valid_from: int | None = None
    valid_to: int | None = None
    expires_at: int | None = None
    source: dict[str, Any] | None = None
    copied_from: dict[str, Any] | None = None
    erased_at: int | None = None
    index: Any = None


def evolve_memory(head: MemoryHead | None, record: MemoryRecord, stamp: Stamp) -> MemoryHead:
    """Return the head for a record. The value of a deleted memory and the last erasure come from the head before."""
    erased_at = record.erased_at
    if erased_at is None and head is not None:
        erased_at = head.erased_at
    return MemoryHead(
        stamp.version,
        scope_of(namespace_and_key(stamp.id)[0]),
        head.value if record.deleted and head is not None else record.value,
        record.memory_type,
        record.metadata,
        record.digest,
        record.created_by,
        stamp.at if record.created_at is None else record.created_at,
        stamp.actor,
        stamp.at,
        record.deleted,
        record.importance,
        record.valid_from,
        record.valid_to,
        record.expires_at,
        record.source,
        record.copied_from,
        erased_at,
        record.index,
    )


def digest_of(record: MemoryRecord) -> str:
    """Return the SHA-256 of a version's content, without its writer, time and number.

    `index` counts only if it has a value, so that versions of earlier releases keep their digests."""
    said = {
        "deleted": record.deleted,
        "expires_at": record.expires_at,
        "importance": record.importance,
        "memory_type": record.memory_type,
        "metadata": record.metadata,
        "source": record.source,
        "valid_from": record.valid_from,
        "valid_to": record.valid_to,
        "value": record.value,
    }
    if record.index is not None:
        said["index"] = record.index
    return sha256(orjson.dumps(said, option=orjson.OPT_SORT_KEYS)).hexdigest()


_NO_SOURCE: Final[Mapping[str, Any]] = dict.fromkeys(Source.model_fields)


def source_fields(source: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return the wire format of a stored source, which lacks fields without a value."""
    return None if source is None else {**_NO_SOURCE, **source}


def source_session(memory: MemoryHead) -> str | None:
    """Return the session that a memory comes from."""
    return None if memory.source is None else memory.source.get("session_id")


def version_fields(record: MemoryRecord, stamp: Stamp) -> dict[str, Any]:
    """Return the wire format of a version, for the feed and for answers."""
    namespace, key = namespace_and_key(stamp.id)
    at = format_microseconds(stamp.at)
    return {
        "namespace": namespace,
        "key": key,
        "value": record.value,
        "memory_type": record.memory_type,
        "version": stamp.version,
        "deleted": record.deleted,
        "metadata": record.metadata,
        "importance": record.importance,
        "valid_from": _moment(record.valid_from),
        "valid_to": _moment(record.valid_to),
        "expires_at": _moment(record.expires_at),
        "source": source_fields(record.source),
        "index": record.index,
        "copied_from": record.copied_from,
        "digest": record.digest,
        "created_by": record.created_by,
        "updated_by": stamp.actor,
        "created_at": at if record.created_at is None else format_microseconds(record.created_at),
        "updated_at": at,
    }


def _moment(at: int | None) -> str | None:
    return None if at is None else format_microseconds(at)


def announce_memory(record: MemoryRecord, stamp: Stamp) -> tuple[Announcement, ...]:
    namespace, key = namespace_and_key(stamp.id)
    return (
        Announcement(
            "memory",
            ANNOUNCED_AS[record.operation],
            memory_address(namespace, key),
            namespace,
            stamp.version,
            stamp.version - 1 or None,
            version_fields(record, stamp),
            key,
        ),
    )


def announce_erased(stamp: Stamp) -> tuple[Announcement, ...]:
    """Announce an erasure. The receipt is derived from the tombstone, so that any worker can announce it."""
    namespace, key = namespace_and_key(stamp.id)
    receipt = None if stamp.cause is None else receipt_id(stamp.tenant, stamp.actor, stamp.cause)
    previous = stamp.version - 1
    value = {"receipt": receipt}
    address = memory_address(namespace, key)
    return (Announcement("memory", "erased", address, namespace, stamp.version, previous, value, key),)


def memory_address(namespace: str, key: str | None) -> Address:
    return Address(tuple(namespace.split(":")), key)


def feed_subject(tenant: str, namespace: str, key: str | None) -> str:
    """Return the subject of a memory's changes, or without a key the filter for everything below a namespace."""
    subject = change_subject(tenant, "memory", memory_address(namespace, key))
    return subject if key is not None else f"{subject}.>"


_ESCAPED_CHARACTER_BYTES: Final = 12
_SURELY_FITS: Final = (SUBJECT_BYTES - 64) // _ESCAPED_CHARACTER_BYTES


def require_announceable(tenant: str, namespace: str, key: str) -> None:
    """Raise `TooLarge` for a memory whose changes would exceed the subject limit, because every write must be
    announced."""
    if len(tenant) + len(namespace) + len(key) > _SURELY_FITS:
        change_subject(tenant, "memory", memory_address(namespace, key))


def receipt_id(tenant: str, agent: str, message_id: str) -> str:
    return derived_id("erasure", tenant, agent, message_id)


def _index_memory(head: MemoryHead) -> Mapping[str, Scalar]:
    return {
        "version": head.version,
        "deleted": head.deleted,
        "live": not head.deleted,
        "memory_type": head.memory_type,
        "created_by": head.created_by,
        "scope": head.scope,
        "updated_at": head.updated_at,
        "expires_at": None if head.deleted else head.expires_at,
        "source_session": None if head.deleted else source_session(head),
    }


MEMORY: Final = Entity(
    name="memory",
    head=MemoryHead,
    record=MemoryRecord,
    evolve=evolve_memory,
    announce=announce_memory,
    told_as={"memory": place_of},
    announce_erased=announce_erased,
    indexed=_index_memory,
    indexes=(
        Index("current", (), None, covering=("version", "deleted", "updated_at", "memory_type", "created_by")),
        Index("live", (), None, only="live", covering=("expires_at",)),
        Index("type", ("memory_type",), None, only="live"),
        Index("creator", ("created_by",), None, only="live", covering=("memory_type",)),
        # These two indexes include deleted memories, because a list by time may ask for them.
        Index("update", (), "updated_at"),
        Index("scope_update", ("scope",), "updated_at"),
        Index("type_update", ("memory_type",), "updated_at", only="live"),
        Index("expiry", (), "expires_at"),
        Index("source_session", ("source_session",), None),
    ),
    snapshot_every=1,
)
