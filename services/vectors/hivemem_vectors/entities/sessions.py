"""What the index knows of a session: whether its events are indexed, and whether it is deleted. Its id is the
session's."""

from dataclasses import dataclass
from typing import Final

from hivemem_runtime.ledger.entity import record_entity


@dataclass(frozen=True, slots=True)
class Followed:
    """Head and record alike; kept of sessions that ask for it alone. `since` is when the session began, in microseconds
    since 1970: an older event is of another one, which had the same id and is deleted."""

    indexes: bool
    gone: bool = False
    since: int = 0


FOLLOWED: Final = record_entity("followed", Followed, history=False)
