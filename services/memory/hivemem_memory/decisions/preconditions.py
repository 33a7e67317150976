"""Where a memory stands: living or not, at the version that its caller expects, with an erasure behind it."""

from hivemem_contracts.errors import NotFound, RevisionConflict
from hivemem_memory.entities.fences import FENCE
from hivemem_memory.entities.memories import MemoryHead
from hivemem_runtime.ledger.entity import AnyEntity
from hivemem_runtime.ledger.places import namespaces_above, place_of
from hivemem_runtime.ledger.port import Head, Heads

Standing = Head[MemoryHead] | None
"""The newest head of a key, None if it was never written."""


def living(head: Standing, now: int) -> MemoryHead | None:
    """The memory, unless it is deleted, erased or expired."""
    if head is None:
        return None
    memory = head.value
    if memory is None or memory.deleted or expired(memory, now):
        return None
    return memory


def expired(memory: MemoryHead, now: int) -> bool:
    return memory.expires_at is not None and memory.expires_at <= now


def require_living(head: Standing, namespace: str, key: str, now: int) -> MemoryHead:
    memory = living(head, now)
    if memory is None:
        raise memory_not_found(namespace, key)
    return memory


def memory_not_found(namespace: str, key: str) -> NotFound:
    return NotFound(f"memory {key!r} of {namespace!r} does not exist", namespace=namespace, key=key)


def expect(expected: int | None, head: Standing, memory: MemoryHead | None, namespace: str, key: str) -> None:
    """Refuse a write whose caller expects another version; 0 expects that nothing lives under the key."""
    if expected is None:
        return
    actual = 0 if head is None else head.version
    if memory is not None if expected == 0 else expected != actual:
        raise RevisionConflict(
            f"memory {key!r} of {namespace!r} is at version {actual}, {expected} was expected",
            expected=expected,
            actual=actual,
        )


def erased_at(head: Standing) -> int | None:
    """When something under the key was erased for the last time."""
    if head is None:
        return None
    return head.at if head.value is None else head.value.erased_at


def fences_of(namespace: str, key: str) -> list[tuple[AnyEntity, str]]:
    """The heads that `require_unfenced` asks for."""
    return [(FENCE, place_of(namespace, key)), *((FENCE, place_of(each)) for each in namespaces_above(namespace))]


def require_unfenced(heads: Heads, namespace: str, key: str, published_at: int | None) -> None:
    """Refuse what waited in the stream while its memory, or all of a namespace that it belongs to, was erased: it would
    bring back what had to go, even if it was not there yet. What is asked for now (None) comes after every erasure."""
    if published_at is None:
        return
    for _, place in fences_of(namespace, key):
        fence = heads(FENCE, place)
        if fence is not None and fence.value is not None and published_at < fence.value.at:
            raise NotFound(
                f"memory {key!r} of {namespace!r} was erased after this was published", namespace=namespace, key=key
            )
