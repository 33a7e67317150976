"""A place in the feed, as an opaque string that survives both the reader and the servers."""

import re
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from hivemem_contracts.errors import InvalidRequest

_WRITTEN: Final = re.compile(r"c([0-9a-f]{1,16})-([0-9a-f]{1,16})")
_TIME: Final = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d)")


@dataclass(frozen=True, slots=True)
class Cursor:
    """Just after change `sequence` of the stream that was made at `created`, in nanoseconds since 1970.

    The second half is what tells a stream from one of the same name that was made anew and counts from 1 again.
    """

    created: int
    sequence: int

    def __str__(self) -> str:
        return f"c{self.created:x}-{self.sequence:x}"

    @classmethod
    def parse(cls, text: str) -> "Cursor":
        """The cursor that was written as `text`, or `InvalidRequest`."""
        match = _WRITTEN.fullmatch(text)
        if match is None:
            raise InvalidRequest(
                f"since: {text!r} is neither 'now', 'start', nor the cursor of a change", field="since"
            )
        return cls(int(match[1], 16), int(match[2], 16))


@dataclass(frozen=True, slots=True)
class StreamState:
    """What the server says about the stream of changes."""

    created: int
    first: int
    """The oldest sequence that is still there; one past `last` where nothing is."""
    last: int
    first_at: int
    """When the oldest change came, in nanoseconds since 1970."""

    @classmethod
    def of(cls, info: dict[str, Any]) -> "StreamState":
        state = info["state"]
        last = int(state["last_seq"])
        # An emptied stream answers first_seq 0 or last + 1, depending on how it came to be empty.
        first = max(int(state["first_seq"]), 1) if state["messages"] else last + 1
        return cls(nanoseconds(info["created"]), first, last, nanoseconds(state["first_ts"]))


def nanoseconds(text: str) -> int:
    """RFC 3339 with up to nine digits, of which `datetime` would drop three."""
    match = _TIME.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is no RFC 3339 time")
    seconds = datetime.fromisoformat(match[1] + match[3].replace("Z", "+00:00")).timestamp()
    return int(seconds) * 1_000_000_000 + int((match[2] or "0").ljust(9, "0"))
