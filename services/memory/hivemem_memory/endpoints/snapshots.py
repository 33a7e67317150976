"""A namespace and what is below it as of one moment, a stretch of places at a time."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from hivemem_contracts.errors import InvalidRequest
from hivemem_contracts.identifiers import microseconds_from_time
from hivemem_memory.decisions.standing import expired
from hivemem_memory.endpoints.rendering import memory_of
from hivemem_memory.entities.answers import ANSWER
from hivemem_memory.entities.memories import MEMORY, MemoryHead, MemoryRecord
from hivemem_runtime.clock import now_microseconds
from hivemem_runtime.ledger.places import below
from hivemem_runtime.ledger.port import Decided, Ledger, Record
from hivemem_runtime.paging import EXAMINED, Bookmark, Lines
from hivemem_runtime.service import Call

_NEXT: Final = "\x01"
"""Places hold no smaller character, so nothing lies between a place and the same one with this behind it."""
_EARLIEST: Final = microseconds_from_time(datetime.min.replace(tzinfo=UTC))
_LATEST: Final = microseconds_from_time(datetime.max.replace(tzinfo=UTC))
_SETTLING: Final = 5_000_000
"""A moment so long ago, in microseconds, that whatever was being committed then is there."""


class Stretch(NamedTuple):
    """What lived in a range of places, how far it was looked for, and whether there may be more behind that."""

    entries: list[tuple[str, MemoryHead]]
    reached: str
    more: bool


def bounds_after(prefix: str, reached: str) -> tuple[str, str]:
    """The range of places at and below a prefix that follow the one that was reached, "" for none."""
    low, high = below(prefix)
    return max(low, reached + _NEXT), high


async def read_past(ledger: Ledger, tenant: str, prefix: str, at: int, reached: str, limit: int) -> Stretch:
    """What lived at a moment, from a place on; looks at no more than `limit` places.

    Most have not changed since, and their heads say it all. Whatever came, changed or went later is read as of then.
    """
    low, high = bounds_after(prefix, reached)
    page = await ledger.find(MEMORY, tenant, "current", equals={}, low=low, high=high, limit=limit)
    later = [head.id for head in page.items if head.at > at]
    records = await ledger.as_of(MEMORY, tenant, later, at) if later else {}
    entries: list[tuple[str, MemoryHead]] = []
    for head in page.items:
        memory = head.value
        if head.at > at:
            memory = lived(records.get(head.id), at)
        elif memory is not None and (memory.deleted or expired(memory, at)):
            memory = None
        if memory is not None:
            entries.append((head.id, memory))
    last = page.items[-1].id if page.items else reached
    return Stretch(entries, last, page.cursor is not None)


async def lived_at(ledger: Ledger, tenant: str, place: str, at: int) -> bool:
    return lived((await ledger.as_of(MEMORY, tenant, [place], at)).get(place), at) is not None


def lived(record: Record[MemoryRecord] | None, at: int) -> MemoryHead | None:
    """The memory that a record was at a moment, unless it was deleted or expired."""
    memory = None if record is None else memory_of(record)
    return None if memory is None or memory.deleted or expired(memory, at) else memory


async def settled(ledger: Ledger, call: Call, asked: int | None) -> int:
    """The moment that is asked for, or now, so that nothing is committed at or before it any more.

    Commits get their time before they are there for others to read. One that changes nothing comes after all that
    were under way, so whatever has an earlier time can be read by now.
    """
    if asked is not None and asked < now_microseconds() - _SETTLING:
        return asked
    written = call.step(ANSWER, call.request_name, lambda heads, now: Decided((), now))
    now: int = (await ledger.commit(written)).answer
    return now if asked is None else min(asked, now)


class PastPage:
    """One page of what lived below a prefix at a moment, to which the cursors keep."""

    def __init__(self, ledger: Ledger, call: Call, name: str, prefix: str) -> None:
        self._ledger = ledger
        self._call = call
        self._prefix = prefix
        self._bookmark = Bookmark(name, prefix)
        self._asked = self.at = 0
        self._reached = ""

    async def begin(self, as_of: datetime | None, cursor: str | None) -> int:
        """Where the page before ended, or at the beginning; answers how large the lines are expected to be."""
        asked = None if as_of is None else microseconds_from_time(as_of)
        if cursor is None:
            self.at = await settled(self._ledger, self._call, asked)
            self._asked = self.at if asked is None else asked
            return 0
        self._asked, self.at, self._reached, average = self._bookmark.find(cursor, int, int, str, int)
        if not _EARLIEST <= self.at <= _LATEST or (asked is not None and asked not in (self._asked, self.at)):
            raise InvalidRequest("cursor: it belongs to another moment", field="cursor")
        return int(average)

    async def fill(self, lines: Lines, line_of: Callable[[str, MemoryHead], dict[str, Any]]) -> str | None:
        """As many lines as there is room for; answers the cursor to go on from."""
        left, more = EXAMINED, True
        while more and left > 0 and not lines.complete:
            limit = min(lines.wanted(), left)
            stretch = await read_past(
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
