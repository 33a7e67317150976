"""The rule for restoring an older version, or the content from before a deletion, as the newest version."""

from typing import Any

from hivemem_contracts.errors import InvalidRequest, NotFound
from hivemem_contracts.memory.requests import RestoreMemory
from hivemem_memory.decisions.leases import require_claim
from hivemem_memory.decisions.preconditions import (
    CurrentHead,
    erased_at,
    expect,
    living,
    memory_not_found,
    require_unfenced,
)
from hivemem_memory.decisions.writes import named_source
from hivemem_memory.entities.memories import MemoryHead, MemoryRecord, digest_of
from hivemem_runtime.ledger.port import Heads, Record


def restore_memory(
    heads: Heads,
    head: CurrentHead,
    command: RestoreMemory,
    wanted: Record[MemoryRecord] | None,
    published_at: int | None,
    now: int,
) -> MemoryRecord:
    """Restore a memory. `wanted` is the version that the command names, read before the decision; None if it does
    not exist."""
    namespace, key = command.namespace, command.key
    if command.lease is not None:
        require_claim(heads, command.lease, namespace, key, now)
    require_unfenced(heads, namespace, key, published_at)
    if head is None or head.value is None:
        raise memory_not_found(namespace, key)
    memory = living(head, now)
    source = named_source(command.source)
    expect(command.expect_version, head, memory, namespace, key)
    if command.version is None:
        if memory is not None:
            raise InvalidRequest(
                f"version: memory {key!r} of {namespace!r} is not deleted: name the version", field="version"
            )
        return _again(head.value, head.value.created_at, source, now)
    erased = erased_at(head)
    if wanted is None or (erased is not None and wanted.stamp.at <= erased):
        raise _version_not_found(command, "does not exist")
    if wanted.value.deleted:
        raise _version_not_found(command, "is a deletion")
    created_at = wanted.value.created_at
    return _again(wanted.value, wanted.stamp.at if created_at is None else created_at, source, now)


def _version_not_found(command: RestoreMemory, what: str) -> NotFound:
    return NotFound(
        f"version {command.version} of memory {command.key!r} of {command.namespace!r} {what}",
        namespace=command.namespace,
        key=command.key,
        version=command.version,
    )


def _again(past: MemoryHead | MemoryRecord, created_at: int, source: dict[str, Any] | None, now: int) -> MemoryRecord:
    """Return a version with the same content, and with another source if there is one. An expiry time in the past is
    dropped, or the memory would expire at once."""
    expires_at = past.expires_at
    record = MemoryRecord(
        "restore",
        past.value,
        past.memory_type,
        past.metadata,
        "",
        past.created_by,
        created_at,
        False,
        past.importance,
        past.valid_from,
        past.valid_to,
        None if expires_at is not None and expires_at <= now else expires_at,
        past.source if source is None else source,
        past.copied_from,
        index=past.index,
    )
    record.digest = digest_of(record)
    return record
