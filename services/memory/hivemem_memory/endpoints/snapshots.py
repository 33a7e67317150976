"""Snapshots: the memories below a prefix as of one moment, read in slices."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from hivemem_contracts.errors import InvalidRequest
from hivemem_contracts.identifiers import microseconds_from_time
from hivemem_memory.decisions.preconditions import expired
from hivemem_memory.endpoints.wire_format import memory_of
from hivemem_memory.entities.answers import ANSWER
from hivemem_memory.entities.memories import MEMORY, MemoryHead, MemoryRecord
from hivemem_runtime.clock import now_microseconds
from hivemem_runtime.ledger.places import below
from hivemem_runtime.ledger.port import Decided, Ledger, Record
from hivemem_runtime.paging import EXAMINED, Bookmark, Lines
from hivemem_runtime.service import Call

_NEXT: Final = "\x01"
"""The smallest character that follows a place. Places contain no smaller one."""
_EARLIEST: Final = microseconds_from_time(datetime.min.replace(tzinfo=UTC))
_LATEST: Final = microseconds_from_time(datetime.max.replace(tzinfo=UTC))
_SETTLING: Final = 5_000_000
"""A moment this many microseconds ago is settled: all commits up to it are visible."""


class SnapshotSlice(NamedTuple):
    """The memories in a range of places, the last place that was examined, and whether there may be more."""

    entries: list[tuple[str, MemoryHead]]
    reached: str
    more: bool


def bounds_after(prefix: str, reached: str) -> tuple[str, str]:
    """Return the range of places below a prefix after the last examined one; "" begins at the first place."""
    low, high = below(prefix)
    return max(low, reached + _NEXT), high


async def read_snapshot(ledger: Ledger, tenant: str, prefix: str, at: int, reached: str, limit: int) -> SnapshotSlice:
    """Return the memories that lived at a moment, from a place on, examining at most `limit` places.

    Most memories have not changed since, so their heads suffice. The others are read as of the moment.
    """
    low, high = bounds_after(prefix, reached)
    page = await ledger.find(MEMORY, tenant, "current", equals={}, low=low, high=high, limit=limit)
    later = [head.id for head in page.items if head.at > at]
    records = await ledger.as_of(MEMORY, tenant, later, at) if later else {}
    entries: list[tuple[str, MemoryHead]] = []
    for head in page.items:
        memory = head.value
        if head.at > at:
            memory = memory_at(records.get(head.id), at)
        elif memory is not None and (memory.deleted or expired(memory, at)):
            memory = None
        if memory is not None:
            entries.append((head.id, memory))
    last = page.items[-1].id if page.items else reached
    return SnapshotSlice(entries, last, page.cursor is not None)


async def lived_at(ledger: Ledger, tenant: str, place: str, at: int) -> bool:
    return memory_at((await ledger.as_of(MEMORY, tenant, [place], at)).get(place), at) is not None


def memory_at(record: Record[MemoryRecord] | None, at: int) -> MemoryHead | None:
    """Return the memory at a moment, or None if it was deleted or expired."""
    memory = None if record is None else memory_of(record)
    return None if memory is None or memory.deleted or expired(memory, at) else memory


async def settled_moment(ledger: Ledger, call: Call, asked: int | None) -> int:
    """Return the requested moment, or now, with the guarantee that no later commit gets an earlier time.

    A commit gets its time before it is visible. An empty commit waits for all commits before it, so all earlier times
    are visible after it.
    """
    if asked is not None and asked < now_microseconds() - _SETTLING:
        return asked
    written = call.step(ANSWER, call.request_name, lambda heads, now: Decided((), now))
    now: int = (await ledger.commit(written)).answer
    return now if asked is None else min(asked, now)


class SnapshotPage:
    """One page of a snapshot. All pages of a cursor share one moment."""

    def __init__(self, ledger: Ledger, call: Call, name: str, prefix: str) -> None:
        self._ledger = ledger
        self._call = call
        self._prefix = prefix
        self._bookmark = Bookmark(name, prefix)
        self._asked = self.at = 0
        self._reached = ""

    async def begin(self, as_of: datetime | None, cursor: str | None) -> int:
        """Start at the end of the previous page, or at the beginning, and return the expected size of a line."""
        asked = None if as_of is None else microseconds_from_time(as_of)
        if cursor is None:
            self.at = await settled_moment(self._ledger, self._call, asked)
            self._asked = self.at if asked is None else asked
            return 0
        self._asked, self.at, self._reached, average = self._bookmark.find(cursor, int, int, str, int)
        if not _EARLIEST <= self.at <= _LATEST or (asked is not None and asked not in (self._asked, self.at)):
            raise InvalidRequest("cursor: it belongs to another moment", field="cursor")
        return int(average)

    async def fill(self, lines: Lines, line_of: Callable[[str, MemoryHead], dict[str, Any]]) -> str | None:
        """Add as many lines as fit, and return the next cursor."""
        left, more = EXAMINED, True
        while more and left > 0 and not lines.complete:
            limit = min(lines.wanted(), left)
            stretch = await read_snapshot(
                self._ledger, self._call.sender.tenant, self._prefix, self.at, self._reached, limit
            )
            for place, memory in stretch.entries:
                if not lines.add(line_of(place, memory)):
                    break
                self._reached = place
            else:
                self._reached, more = stretch.reached, stretch.more
            left -= limit
        return self._bookmark.put(self._asked, self.at, self._reached, lines.average) if more else None
