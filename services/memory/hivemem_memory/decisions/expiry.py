"""What ends without anybody asking for it: memories whose time is over, and those of a session that has ended."""

from hivemem_memory.decisions.standing import expired
from hivemem_memory.decisions.writing import deletion
from hivemem_memory.entities.memories import MEMORY
from hivemem_runtime.ledger.port import Append, Decision, Heads, value_of


def expire_memory(heads: Heads, place: str, now: int) -> Decision:
    """Nothing where it was prolonged, replaced or deleted in the meantime."""
    head = heads(MEMORY, place)
    memory = value_of(head)
    if memory is None or memory.deleted or not expired(memory, now):
        return []
    return [Append(MEMORY, place, deletion(memory, "expire"))]


def end_with_session(heads: Heads, place: str, latest: int) -> Decision:
    """Delete what began no later than that: a session of the same id may have come after the one that ended."""
    head = heads(MEMORY, place)
    memory = value_of(head)
    if memory is None or memory.deleted or memory.created_at > latest:
        return []
    return [Append(MEMORY, place, deletion(memory, "delete"))]
