"""The rules for putting, patching and deleting a memory. Each appends one record to the current head."""

from datetime import datetime
from typing import Any, Final

import orjson

from hivemem_contracts.errors import InvalidRequest
from hivemem_contracts.identifiers import format_microseconds, microseconds_from_time
from hivemem_contracts.limits import MEMORY_VALUE_BYTES
from hivemem_contracts.memory.models import Source
from hivemem_contracts.memory.requests import DeleteMemory, PatchMemory, PutMemory
from hivemem_contracts.sizes import check_size
from hivemem_memory.decisions.leases import require_claim
from hivemem_memory.decisions.preconditions import CurrentHead, expect, living, require_living, require_unfenced
from hivemem_memory.entities.memories import MemoryHead, MemoryRecord, digest_of
from hivemem_runtime.ledger.port import Heads
from hivemem_runtime.merge_patch import merge_patch

_BLANK: Final = MemoryHead(0, "", None, "semantic", {}, "", "", 0, "", 0)
"""The defaults for fields that the first put leaves out."""


def put_memory(
    heads: Heads, head: CurrentHead, command: PutMemory, agent: str, published_at: int | None, now: int
) -> MemoryRecord:
    """Put a value. Fields that the command leaves out keep their value while the memory lives."""
    namespace, key = command.namespace, command.key
    if command.lease is not None:
        require_claim(heads, command.lease, namespace, key, now)
    require_unfenced(heads, namespace, key, published_at)
    memory = living(head, now)
    expect(command.expect_version, head, memory, namespace, key)
    before = _BLANK if memory is None else memory
    given = command.model_fields_set
    record = MemoryRecord(
        "put",
        command.value,
        before.memory_type if command.memory_type is None else command.memory_type,
        before.metadata if command.metadata is None else command.metadata,
        "",
        agent if memory is None else memory.created_by,
        None if memory is None else memory.created_at,
        False,
        command.importance if "importance" in given else before.importance,
        _microseconds(command.valid_from) if "valid_from" in given else before.valid_from,
        _microseconds(command.valid_to) if "valid_to" in given else before.valid_to,
        _microseconds(command.expires_at) if "expires_at" in given else before.expires_at,
        named_source(command.source) if "source" in given else before.source,
        before.copied_from,
        head.at if head is not None and head.value is None else None,
        command.index if "index" in given else before.index,
    )
    require_times(record, now)
    record.digest = digest_of(record)
    return record


def _microseconds(moment: datetime | None) -> int | None:
    return None if moment is None else microseconds_from_time(moment)


def named_source(source: Source | None) -> dict[str, Any] | None:
    """Return the source of a write. Raises `InvalidRequest` for one that names nothing, or half of something."""
    plain = plain_source(source)
    if source is None or plain is None:
        return None
    if not any(value is not None for value in plain.values()):
        raise InvalidRequest("source: it names nothing; null removes the source", field="source")
    for part, whole in (("event_id", "session_id"), ("cycle", "agent_id")):
        if plain.get(part) is not None and plain.get(whole) is None:
            raise InvalidRequest(f"source.{whole}: {part} needs it", field=f"source.{whole}")
    return plain


def plain_source(source: Source | None) -> dict[str, Any] | None:
    """Return a source as it is stored. Digests contain it, so fields that earlier releases did not have are left out
    unless they have a value."""
    if source is None:
        return None
    return {"session_id": source.session_id, "event_id": source.event_id} | source.model_dump(exclude_none=True)


def require_times(record: MemoryRecord, now: int) -> None:
    start, end = record.valid_from, record.valid_to
    if start is not None and end is not None and start >= end:
        raise InvalidRequest(
            f"valid_to: {format_microseconds(end)} is not after valid_from, {format_microseconds(start)}",
            field="valid_to",
        )
    if record.expires_at is not None and record.expires_at <= now:
        raise InvalidRequest(f"expires_at: {format_microseconds(record.expires_at)} is past", field="expires_at")


def patch_memory(
    heads: Heads, head: CurrentHead, command: PatchMemory, published_at: int | None, now: int
) -> MemoryRecord:
    namespace, key = command.namespace, command.key
    if command.lease is not None:
        require_claim(heads, command.lease, namespace, key, now)
    require_unfenced(heads, namespace, key, published_at)
    memory = require_living(head, namespace, key, now)
    expect(command.expect_version, head, memory, namespace, key)
    value = merge_patch(memory.value, command.patch)
    check_size("patch", len(orjson.dumps(value)), MEMORY_VALUE_BYTES)
    return _next("patch", memory, value, named_source(command.source))


def delete_memory(
    heads: Heads, head: CurrentHead, command: DeleteMemory, published_at: int | None, now: int
) -> MemoryRecord:
    """Delete a memory by a version without a value."""
    namespace, key = command.namespace, command.key
    if command.lease is not None:
        require_claim(heads, command.lease, namespace, key, now)
    require_unfenced(heads, namespace, key, published_at)
    memory = require_living(head, namespace, key, now)
    expect(command.expect_version, head, memory, namespace, key)
    return deletion(memory, "delete", named_source(command.source))


def deletion(memory: MemoryHead, operation: str, source: dict[str, Any] | None = None) -> MemoryRecord:
    """Return the version that ends a memory, by request, by expiry or with its session."""
    return _next(operation, memory, None, source, deleted=True)


def unlinked(memory: MemoryHead) -> MemoryRecord:
    """Return the version whose source no longer names a session, nor an event of it."""
    source = {**(memory.source or {}), "session_id": None, "event_id": None}
    return _next("unlink", memory, memory.value, source)


def _next(
    operation: str, memory: MemoryHead, value: Any, source: dict[str, Any] | None, *, deleted: bool = False
) -> MemoryRecord:
    """Return the next version with another value, and with another source if there is one. All other fields stay the
    same."""
    record = MemoryRecord(
        operation,
        value,
        memory.memory_type,
        memory.metadata,
        "",
        memory.created_by,
        memory.created_at,
        deleted,
        memory.importance,
        memory.valid_from,
        memory.valid_to,
        memory.expires_at,
        memory.source if source is None else source,
        memory.copied_from,
        index=memory.index,
    )
    record.digest = digest_of(record)
    return record
