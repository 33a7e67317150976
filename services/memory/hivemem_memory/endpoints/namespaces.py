"""The operations `snapshot` and `diff` on a namespace and all namespaces below it."""

import asyncio
from typing import Any, Final

import orjson

from hivemem_contracts.errors import InvalidRequest
from hivemem_contracts.identifiers import format_microseconds, microseconds_from_time
from hivemem_contracts.limits import REPLY_BYTES
from hivemem_contracts.memory import operations, requests
from hivemem_memory.endpoints.json_diff import bounded_differences
from hivemem_memory.endpoints.snapshots import SnapshotPage, bounds_after, memory_at, settled_moment
from hivemem_memory.endpoints.wire_format import memory_fields
from hivemem_memory.entities.memories import MEMORY, MemoryHead
from hivemem_runtime.ledger.places import namespace_and_key
from hivemem_runtime.ledger.port import Covered, Ledger
from hivemem_runtime.paging import EXAMINED, Bookmark, Lines
from hivemem_runtime.service import Call, Service

PLACES_AT_ONCE: Final = 1_000
PLACES_EXAMINED: Final = 10_000
"""The maximum number of places that one answer examines. The index shows that most of them are unchanged."""


def bind(service: Service) -> None:
    namespaces = Namespaces(service.ledger)
    service.handler(operations.SNAPSHOT, namespaces.snapshot)
    service.handler(operations.DIFF, namespaces.diff)


class Namespaces:
    """The operations `snapshot` and `diff`."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    async def snapshot(self, call: Call, body: requests.SnapshotNamespace) -> bytes:
        page = SnapshotPage(self._ledger, call, "snapshot", body.namespace)
        lines = Lines(body.limit, await page.begin(body.as_of, body.cursor))
        cursor = await page.fill(lines, memory_fields)
        return lines.answer(cursor, namespace=body.namespace, as_of=format_microseconds(page.at))

    async def diff(self, call: Call, body: requests.DiffNamespace) -> bytes:
        start, end = microseconds_from_time(body.start), microseconds_from_time(body.end)
        if start > end:
            raise InvalidRequest("from: it is later than `to`", field="from")
        bookmark = Bookmark("diff", body.namespace, start, end)
        if body.cursor is None:
            at, reached, average = await settled_moment(self._ledger, call, end), "", 0
        else:
            at, reached, average = bookmark.find(body.cursor, int, str, int)
        lines = Lines(body.limit, average)
        comparison = NamespaceDiff(self._ledger, call.sender.tenant, body.namespace, min(start, at), at, reached)
        more = await comparison.fill(lines)
        return lines.answer(bookmark.put(at, comparison.reached, lines.average) if more else None)


class NamespaceDiff:
    """The differences of a namespace between two moments, from a place on."""

    def __init__(self, ledger: Ledger, tenant: str, prefix: str, start: int, end: int, reached: str) -> None:
        self.reached = reached
        self._ledger = ledger
        self._tenant = tenant
        self._prefix = prefix
        self._start = start
        self._end = end

    async def fill(self, lines: Lines) -> bool:
        """Add as many changes as fit, and return whether there may be more."""
        places, compared = PLACES_EXAMINED, EXAMINED
        while True:
            low, high = bounds_after(self._prefix, self.reached)
            page = await self._ledger.covered(
                MEMORY, self._tenant, "current", equals={}, low=low, high=high, limit=PLACES_AT_ONCE
            )
            later = [entry.id for entry in page.items if self._is_later(entry)]
            while later:
                part, later = _split(later, lines.wanted(sieved=True))
                if not await self._compare(part, lines):
                    return True
                compared -= len(part)
                if later and (lines.complete or compared <= 0):
                    return True
            if page.items:
                self.reached = page.items[-1].id
            places -= len(page.items)
            if page.cursor is None:
                return False
            if lines.complete or compared <= 0 or places <= 0:
                return True
            await asyncio.sleep(0)

    def _is_later(self, entry: Covered) -> bool:
        """Return whether the memory was written after the first moment."""
        updated_at = entry.values["updated_at"]
        return isinstance(updated_at, int) and updated_at > self._start

    async def _compare(self, places: list[str], lines: Lines) -> bool:
        before = await self._ledger.as_of(MEMORY, self._tenant, places, self._start)
        after = await self._ledger.as_of(MEMORY, self._tenant, places, self._end)
        for place in places:
            change = change_of(place, memory_at(before.get(place), self._start), memory_at(after.get(place), self._end))
            if change is not None and not lines.add(change):
                return False
            self.reached = place
        return True


def _split(places: list[str], count: int) -> tuple[list[str], list[str]]:
    return places[:count], places[count:]


def change_of(place: str, before: MemoryHead | None, after: MemoryHead | None) -> dict[str, Any] | None:
    """Return the change of a memory between two moments, or None if its content is the same."""
    if before is None and after is None:
        return None
    if before is not None and after is not None and before.digest == after.digest:
        return None
    namespace, key = namespace_and_key(place)
    change: dict[str, Any] = {
        "namespace": namespace,
        "key": key,
        "change": "added" if before is None else "removed" if after is None else "changed",
        "before": None if before is None else memory_fields(place, before),
        "after": None if after is None else memory_fields(place, after),
        "diff": [],
        "values_omitted": False,
    }
    if before is None or after is None:
        return change
    room = REPLY_BYTES - len(orjson.dumps(change))
    diff = bounded_differences(before.value, after.value, room)
    if diff is None:
        shorn = {"value": None}
        return change | {
            "before": memory_fields(place, before) | shorn,
            "after": memory_fields(place, after) | shorn,
            "values_omitted": True,
        }
    return change | {"diff": diff}
