"""The rules of copies: a fork copies memories to another namespace, and an import writes the lines of an export."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple

from hivemem_contracts.errors import AlreadyExists
from hivemem_contracts.identifiers import format_microseconds, microseconds_from_time
from hivemem_contracts.memory.requests import ImportedMemory
from hivemem_memory.decisions.preconditions import CurrentHead, erased_at, expired, fences_of, living, require_unfenced
from hivemem_memory.decisions.writes import plain_source, require_times
from hivemem_memory.entities.answers import ANSWER, Answer
from hivemem_memory.entities.memories import MEMORY, MemoryHead, MemoryRecord, digest_of
from hivemem_runtime.ledger.entity import AnyEntity
from hivemem_runtime.ledger.places import namespace_and_key
from hivemem_runtime.ledger.port import Append, Decision, Heads


class MemoryCopy(NamedTuple):
    """A memory at its source, and the place of its copy."""

    source: str
    target: str
    memory: MemoryHead


class ForkProgress(NamedTuple):
    """The progress of a fork: the request, and the last place that was copied."""

    namespace: str
    into: str
    as_of: int
    through: str = ""
    entries: int = 0
    slices: int = 0
    done: bool = False
    digest: str | None = None
    """The digest of the request; None for a fork that an older release began."""

    def answer(self, now: int) -> Answer:
        return Answer({"fork": list(self)}, now)


def fork_progress(answer: Answer) -> ForkProgress:
    return ForkProgress(*answer.reply["fork"])


def reads_of(copies: Sequence[MemoryCopy], published_at: int | None) -> list[tuple[AnyEntity, str]]:
    """Return all keys that the decision for a slice reads."""
    reads: list[tuple[AnyEntity, str]] = []
    for copy in copies:
        reads += [(MEMORY, copy.source), (MEMORY, copy.target)]
        if published_at is not None:
            reads += fences_of(*_names(copy.target))
    return reads


def copy_slice(
    heads: Heads,
    request_id: str,
    copies: Sequence[MemoryCopy],
    progress: ForkProgress,
    agent: str,
    published_at: int | None,
    now: int,
) -> Decision:
    """Copy the next memories of a fork, and store the progress. Memories erased since the fork's moment are skipped."""
    appends: list[Append[Any, Any]] = []
    for copy in copies:
        if _erased_since(heads(MEMORY, copy.source), progress.as_of):
            continue
        target = heads(MEMORY, copy.target)
        namespace, key = _names(copy.target)
        require_unfenced(heads, namespace, key, published_at)
        if living(target, now) is not None:
            raise AlreadyExists(
                f"into: memory {key!r} of {namespace!r} was written while the fork was made",
                namespace=namespace,
                key=key,
            )
        appends.append(Append(MEMORY, copy.target, copied_record(copy, target, agent, now)))
    progress = progress._replace(entries=progress.entries + len(appends), slices=progress.slices + 1)
    return [Append(ANSWER, request_id, progress.answer(now)), *appends]


def _erased_since(head: CurrentHead, at: int) -> bool:
    erased = erased_at(head)
    return head is None or (erased is not None and erased > at)


def copied_record(copy: MemoryCopy, target: CurrentHead, agent: str, now: int) -> MemoryRecord:
    """Return the first version of the copy, which has the same content and names its origin."""
    memory = copy.memory
    record = MemoryRecord(
        "fork",
        memory.value,
        memory.memory_type,
        memory.metadata,
        memory.digest,
        agent,
        None,
        False,
        memory.importance,
        memory.valid_from,
        memory.valid_to,
        memory.expires_at,
        memory.source,
        past_of(copy.source, memory),
        erasure_before(target),
        memory.index,
    )
    if expired(memory, now):
        record.expires_at = None
        record.digest = digest_of(record)
    return record


def erasure_before(head: CurrentHead) -> int | None:
    """Return the time of the last erasure, which the first version after it has to store."""
    return head.at if head is not None and head.value is None else None


def past_of(place: str, memory: MemoryHead) -> dict[str, Any]:
    """Return the origin that a copy names, in the wire format of `Copied`."""
    namespace, key = _names(place)
    return {
        "namespace": namespace,
        "key": key,
        "version": memory.version,
        "created_by": memory.created_by,
        "created_at": format_microseconds(memory.created_at),
        "updated_by": memory.updated_by,
        "updated_at": format_microseconds(memory.updated_at),
    }


def _names(place: str) -> tuple[str, str]:
    namespace, key = namespace_and_key(place)
    return namespace, key or ""


def _microseconds(moment: datetime | None) -> int | None:
    return None if moment is None else microseconds_from_time(moment)


def imported_record(
    item: ImportedMemory, head: CurrentHead, agent: str, now: int
) -> tuple[MemoryRecord, MemoryHead | None]:
    """Return the version that an imported line would write, and the memory that lives there now. Raises the refusal
    of the line."""
    memory = living(head, now)
    copied_from = None if memory is None else memory.copied_from
    if item.copied_from is not None:
        copied_from = item.copied_from.model_dump(mode="json")
    record = MemoryRecord(
        "import",
        item.value,
        item.memory_type,
        item.metadata,
        "",
        agent if memory is None else memory.created_by,
        None if memory is None else memory.created_at,
        False,
        item.importance,
        _microseconds(item.valid_from),
        _microseconds(item.valid_to),
        _microseconds(item.expires_at),
        plain_source(item.source),
        copied_from,
        erasure_before(head),
        item.index,
    )
    require_times(record, now)
    record.digest = digest_of(record)
    return record, memory


def import_memory(
    item: ImportedMemory, existing: str, head: CurrentHead, agent: str, now: int
) -> tuple[str, MemoryRecord | None]:
    """Return the outcome of an imported line, and its new version if it writes one. An unchanged line writes none."""
    record, memory = imported_record(item, head, agent, now)
    if memory is None:
        return "created", record
    if memory.digest == record.digest:
        return "unchanged", None
    return ("kept", None) if existing == "keep" else ("updated", record)
