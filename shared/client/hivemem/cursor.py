"""A place in the feed, as an opaque string that survives both the reader and the servers."""

import re
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any, Final

from hivemem_contracts.errors import InvalidRequest
from hivemem_contracts.streams import FEED_EPOCH

_HEX: Final = "([0-9a-f]{1,16})"
_WRITTEN: Final = re.compile(f"c{_HEX}-(?:([0-9]{{1,9}}-[0-9a-z]{{1,16}})-)?{_HEX}(?:@{_HEX})?")
_TIME: Final = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d)")


@dataclass(frozen=True, slots=True)
class Cursor:
    """The place just after change `sequence` of the stream that was created at `created`, in nanoseconds since 1970.

    A stream of the same name may count from 1 again, which `created` reveals, or assign sequences a second time after
    it lost its end, which `epoch` reveals. `stored_at` is when the stream stored the change, 0 if unknown: a change of
    another time at the same sequence is another one.
    """

    created: int
    sequence: int
    epoch: str = ""
    stored_at: int = 0

    def __str__(self) -> str:
        return cursor_text(self.created, self.sequence, self.epoch, self.stored_at)

    @classmethod
    def parse(cls, text: str) -> "Cursor":
        """Parse a cursor, or raise `InvalidRequest`."""
        match = _WRITTEN.fullmatch(text)
        if match is None:
            raise InvalidRequest(
                f"since: {text!r} is neither 'now', 'start', nor the cursor of a change", field="since"
            )
        return cls(int(match[1], 16), int(match[3], 16), match[2] or "", int(match[4] or "0", 16))


def cursor_text(created: int, sequence: int, epoch: str, stored_at: int) -> str:
    """Return a cursor as text, straight from its parts: a feed writes one for every change."""
    stored = f"@{stored_at:x}" if stored_at else ""
    return f"{_feed_text(created, epoch)}{sequence:x}{stored}"


@lru_cache(maxsize=64)
def _feed_text(created: int, epoch: str) -> str:
    """Return the start of a cursor, which all changes of one feed share."""
    return f"c{created:x}-{epoch}-" if epoch else f"c{created:x}-"


@dataclass(frozen=True, slots=True)
class StreamState:
    """The state of the stream of changes on the server."""

    created: int
    first: int
    """The oldest sequence that the stream still has; one past `last` if it is empty."""
    last: int
    first_at: int
    """The time of the oldest change, in nanoseconds since 1970."""
    epoch: str = ""
    last_at: int = 0
    """The time of the newest change, in nanoseconds since 1970."""
    missing: int = 0
    """The number of messages lost between the oldest and the newest."""

    @classmethod
    def of(cls, info: dict[str, Any]) -> "StreamState":
        state = info["state"]
        last = int(state["last_seq"])
        # An emptied stream answers first_seq 0 or last + 1, depending on how it came to be empty.
        first = max(int(state["first_seq"]), 1) if state["messages"] else last + 1
        metadata: dict[str, str] = info["config"].get("metadata") or {}
        epoch = metadata.get(FEED_EPOCH, "")
        last_at = nanoseconds(state["last_ts"]) if state["messages"] else 0
        missing = int(state.get("num_deleted") or 0) if state["messages"] else 0
        return cls(nanoseconds(info["created"]), first, last, nanoseconds(state["first_ts"]), epoch, last_at, missing)


def nanoseconds(text: str) -> int:
    """Parse RFC 3339 with up to nine digits, of which `datetime` would drop three."""
    match = _TIME.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not an RFC 3339 time")
    seconds = datetime.fromisoformat(match[1] + match[3].replace("Z", "+00:00")).timestamp()
    return int(seconds) * 1_000_000_000 + int((match[2] or "0").ljust(9, "0"))
