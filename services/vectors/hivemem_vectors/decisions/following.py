"""Which sessions the index follows: those whose metadata ask for it, from their beginning to their deletion."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, cast

from hivemem_runtime.ledger.port import Append, Decision, Heads, value_of
from hivemem_vectors.entities.sessions import FOLLOWED, Followed

ASKS: Final = "index_events"


class Begun(NamedTuple):
    """A session that asks for its events to be indexed. A fork shares those through a sequence with its origin, under
    which they are found."""

    tenant: str
    session_id: str
    since: int
    after: int


def can_be_followed(session_id: str) -> bool:
    """No namespace names another one."""
    return ":" not in session_id


def asks(session: Mapping[str, Any]) -> bool:
    metadata: object = session.get("metadata")
    return isinstance(metadata, Mapping) and cast("Mapping[str, Any]", metadata).get(ASKS) is True


def shared_through(session: Mapping[str, Any]) -> int:
    origin: object = session.get("forked_from")
    if not isinstance(origin, Mapping):
        return 0
    sequence: object = cast("Mapping[str, Any]", origin).get("sequence")
    return sequence if isinstance(sequence, int) else 0


def follow(sessions: Sequence[Begun], heads: Heads, now: int) -> Decision:
    """What was told late, of a session that was deleted since, is no news."""
    del now
    return [
        Append(FOLLOWED, begun.session_id, Followed(indexes=True, since=begun.since))
        for begun in sessions
        if is_new_life(_value(heads, begun.session_id), begun.since)
    ]


def is_new_life(followed: Followed | None, since: int) -> bool:
    return followed is None or followed.since < since


def let_go(heads: Heads, session_id: str, at: int) -> Decision:
    """Nothing where the session is of a later life than the one that ended."""
    followed = _value(heads, session_id)
    if followed is None or followed.gone or followed.since > at:
        return []
    return [Append(FOLLOWED, session_id, Followed(indexes=False, gone=True, since=followed.since))]


def _value(heads: Heads, session_id: str) -> Followed | None:
    head = heads(FOLLOWED, session_id)
    return value_of(head)
