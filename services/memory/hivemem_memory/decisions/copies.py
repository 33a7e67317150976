"""Copying memories: what a fork writes in another namespace, what an import makes of a line of an export."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple

from hivemem_contracts.errors import AlreadyExists
from hivemem_contracts.identifiers import format_microseconds, microseconds_from_time
from hivemem_contracts.memory.requests import ImportedMemory
from hivemem_memory.decisions.standing import Standing, erased_at, expired, fences_of, living, require_unfenced
from hivemem_memory.decisions.writing import require_times
from hivemem_memory.entities.answers import ANSWER, Answer
from hivemem_memory.entities.memories import MEMORY, MemoryHead, MemoryRecord, digest_of
from hivemem_runtime.ledger.entity import AnyEntity
from hivemem_runtime.ledger.places import namespace_and_key
from hivemem_runtime.ledger.port import Append, Decision, Heads


class Copy(NamedTuple):
    """A memory as it was where it came from, and the place that it is to have."""

    source: str
    target: str
    memory: MemoryHead


class Progress(NamedTuple):
    """How far a fork is: what it was asked for, and the last place that is copied."""

    namespace: str
    into: str
    as_of: int
    through: str = ""
    entries: int = 0
    slices: int = 0
    done: bool = False
    digest: str | None = None
    """Of the request; None where an older release began it."""

    def answer(self, now: int) -> Answer:
        return Answer({"fork": list(self)}, now)


def progress_of(answer: Answer) -> Progress:
    return Progress(*answer.reply["fork"])


def reads_of(copies: Sequence[Copy], published_at: int | None) -> list[tuple[AnyEntity, str]]:
    """All heads that the copying of a slice asks for."""
    reads: list[tuple[AnyEntity, str]] = []
    for copy in copies:
        reads += [(MEMORY, copy.source), (MEMORY, copy.target)]
        if published_at is not None:
            reads += fences_of(*_names(copy.target))
    return reads


def copy_slice(
    heads: Heads,
    request_id: str,
    copies: Sequence[Copy],
    progress: Progress,
    agent: str,
    published_at: int | None,
    now: int,
) -> Decision:
    """The next memories of a fork, with how far it is then. One that was erased meanwhile is not brought back."""
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


def _erased_since(head: Standing, at: int) -> bool:
    erased = erased_at(head)
    return head is None or (erased is not None and erased > at)


def copied_record(copy: Copy, target: Standing, agent: str, now: int) -> MemoryRecord:
    """The first version of a new life, which says the same and knows where it comes from."""
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
    )
    if expired(memory, now):
        record.expires_at = None
        record.digest = digest_of(record)
    return record


def erasure_before(head: Standing) -> int | None:
    """What the first version after an erasure has to remember of it."""
    return head.at if head is not None and head.value is None else None


def past_of(place: str, memory: MemoryHead) -> dict[str, Any]:
    """What a copy says of its original: a `Copied` as it travels."""
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
    item: ImportedMemory, head: Standing, agent: str, now: int
) -> tuple[MemoryRecord, MemoryHead | None]:
    """What a line says as the next version, beside the memory that lives there now. Raises what refuses the line."""
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
        None if item.source is None else item.source.model_dump(),
        copied_from,
        erasure_before(head),
    )
    require_times(record, now)
    record.digest = digest_of(record)
    return record, memory


def import_memory(
    item: ImportedMemory, existing: str, head: Standing, agent: str, now: int
) -> tuple[str, MemoryRecord | None]:
    """What becomes of a line, and the version that it makes, if it makes one: the same line again makes none."""
    record, memory = imported_record(item, head, agent, now)
    if memory is None:
        return "created", record
    if memory.digest == record.digest:
        return "unchanged", None
    return ("kept", None) if existing == "keep" else ("updated", record)
