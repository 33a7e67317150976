"""Preconditions of a write: the memory lives, has the expected version, and was not erased after the write was
published."""

from datetime import datetime

from hivemem_contracts.errors import NotFound, RevisionConflict
from hivemem_contracts.identifiers import format_time
from hivemem_memory.entities.fences import FENCE
from hivemem_memory.entities.memories import MemoryHead
from hivemem_runtime.ledger.entity import AnyEntity
from hivemem_runtime.ledger.places import namespaces_above, place_of
from hivemem_runtime.ledger.port import Head, Heads

CurrentHead = Head[MemoryHead] | None
"""The newest head of a key; None if it was never written."""


def living(head: CurrentHead, now: int) -> MemoryHead | None:
    """Return the memory, or None if it is deleted, erased or expired."""
    if head is None:
        return None
    memory = head.value
    if memory is None or memory.deleted or expired(memory, now):
        return None
    return memory


def expired(memory: MemoryHead, now: int) -> bool:
    return memory.expires_at is not None and memory.expires_at <= now


def require_living(head: CurrentHead, namespace: str, key: str, now: int) -> MemoryHead:
    memory = living(head, now)
    if memory is None:
        raise memory_not_found(namespace, key, None if head is None else head.value)
    return memory


def memory_not_found(
    namespace: str, key: str, last: MemoryHead | None = None, as_of: datetime | None = None
) -> NotFound:
    """Return the error for a memory whose last version is deleted or expired, or which has none."""
    what = "does not exist"
    if last is not None:
        what = "was deleted: `restore` brings it back" if last.deleted else "has expired: `restore` brings it back"
    elif as_of is not None:
        what = f"did not exist at {format_time(as_of)}"
    return NotFound(f"memory {key!r} of {namespace!r} {what}", namespace=namespace, key=key)


def expect(expected: int | None, head: CurrentHead, memory: MemoryHead | None, namespace: str, key: str) -> None:
    """Refuse a write if the caller expects another version. 0 expects that no memory lives under the key."""
    if expected is None:
        return
    actual = 0 if head is None else head.version
    if memory is not None if expected == 0 else expected != actual:
        raise RevisionConflict(
            f"memory {key!r} of {namespace!r} is at version {actual}, {expected} was expected",
            expected=expected,
            actual=actual,
        )


def erased_at(head: CurrentHead) -> int | None:
    """Return the time of the last erasure under the key."""
    if head is None:
        return None
    return head.at if head.value is None else head.value.erased_at


def fences_of(namespace: str, key: str) -> list[tuple[AnyEntity, str]]:
    """Return the heads that `require_unfenced` reads."""
    return [(FENCE, place_of(namespace, key)), *((FENCE, place_of(each)) for each in namespaces_above(namespace))]


def require_unfenced(heads: Heads, namespace: str, key: str, published_at: int | None) -> None:
    """Refuse a durable command that was published before its memory, or a namespace above it, was erased, because it
    would bring erased data back. A request (`published_at` is None) always comes after the erasure."""
    if published_at is None:
        return
    for _, place in fences_of(namespace, key):
        fence = heads(FENCE, place)
        if fence is not None and fence.value is not None and published_at < fence.value.at:
            raise NotFound(
                f"memory {key!r} of {namespace!r} was erased after this was published", namespace=namespace, key=key
            )
