"""Preconditions of a write: the session exists, has the expected revision, and its status allows the write."""

from typing import Final

from hivemem_contracts.errors import IllegalTransition, NotFound, RevisionConflict
from hivemem_runtime.ledger.port import Head, Heads
from hivemem_sessions.entities import SESSION, SessionHead

TRANSITIONS: Final[dict[str, tuple[str, ...]]] = {
    "created": ("active", "terminated"),
    "active": ("paused", "terminated"),
    "paused": ("active", "terminated"),
    "terminated": ("archived",),
    "archived": (),
}
WRITABLE: Final = ("created", "active", "paused")


def find_session(heads: Heads, session_id: str) -> tuple[Head[SessionHead], SessionHead]:
    head = heads(SESSION, session_id)
    if head is None or head.value is None:
        raise session_not_found(session_id)
    return head, head.value


def session_not_found(session_id: str) -> NotFound:
    return NotFound(f"session {session_id!r} does not exist", session_id=session_id)


def expect(what: str, expected: int | None, actual: int) -> None:
    if expected is not None and expected != actual:
        raise RevisionConflict(
            f"{what} is at revision {actual}, {expected} was expected", expected=expected, actual=actual
        )


def require_writable(session_id: str, session: SessionHead) -> None:
    if session.status not in WRITABLE:
        raise IllegalTransition(
            f"session {session_id!r} is {session.status}: it accepts no more events or state changes",
            status=session.status,
            allowed=list(TRANSITIONS[session.status]),
        )
