"""The rules for memories that end or change without a request: by expiry, or with a session."""

from hivemem_memory.decisions.preconditions import expired
from hivemem_memory.decisions.writes import deletion, unlinked
from hivemem_memory.entities.memories import MEMORY, source_session
from hivemem_runtime.ledger.port import Append, Decision, Heads, value_of


def expire_memory(heads: Heads, place: str, now: int) -> Decision:
    """Delete an expired memory, unless it was prolonged, replaced or deleted in the meantime."""
    head = heads(MEMORY, place)
    memory = value_of(head)
    if memory is None or memory.deleted or not expired(memory, now):
        return []
    return [Append(MEMORY, place, deletion(memory, "expire"))]


def end_with_session(heads: Heads, place: str, latest: int) -> Decision:
    """Delete a memory created at `latest` or earlier. A later one belongs to a new session with the same id."""
    head = heads(MEMORY, place)
    memory = value_of(head)
    if memory is None or memory.deleted or memory.created_at > latest:
        return []
    return [Append(MEMORY, place, deletion(memory, "delete"))]


def unlink_session(heads: Heads, place: str, session_id: str, latest: int) -> Decision:
    """Remove a deleted session from the source of a memory that was written at `latest` or earlier. A later write means
    a new session with the same id."""
    memory = value_of(heads(MEMORY, place))
    if memory is None or memory.deleted or memory.updated_at > latest or source_session(memory) != session_id:
        return []
    return [Append(MEMORY, place, unlinked(memory))]
