"""The wire format of memories, as plain fields: models for a page of a thousand would take most of its time."""

from typing import Any

from hivemem_contracts.identifiers import format_microseconds
from hivemem_memory.entities.memories import MemoryHead, MemoryRecord, evolve_memory, source_fields
from hivemem_runtime.ledger.places import namespace_and_key
from hivemem_runtime.ledger.port import Record


def memory_fields(place: str, memory: MemoryHead, *, ended: bool = False) -> dict[str, Any]:
    """Return the wire format of a memory. `ended` shows an expired memory as deleted."""
    namespace, key = namespace_and_key(place)
    gone = ended or memory.deleted
    start, end, expires_at = memory.valid_from, memory.valid_to, memory.expires_at
    return {
        "namespace": namespace,
        "key": key,
        "value": None if gone else memory.value,
        "memory_type": memory.memory_type,
        "version": memory.version,
        "deleted": gone,
        "metadata": memory.metadata,
        "importance": memory.importance,
        "valid_from": None if start is None else format_microseconds(start),
        "valid_to": None if end is None else format_microseconds(end),
        "expires_at": None if expires_at is None else format_microseconds(expires_at),
        "source": source_fields(memory.source),
        "index": memory.index,
        "copied_from": memory.copied_from,
        "digest": memory.digest,
        "created_by": memory.created_by,
        "updated_by": memory.updated_by,
        "created_at": format_microseconds(memory.created_at),
        "updated_at": format_microseconds(memory.updated_at),
    }


def memory_of(record: Record[MemoryRecord]) -> MemoryHead:
    """Return the memory as of one version."""
    return evolve_memory(None, record.value, record.stamp)
