"""The operations `list` and `count`. Each scans the most selective index and filters by the other fields."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from hivemem_contracts.identifiers import covers, microseconds_from_time
from hivemem_contracts.memory import operations, replies, requests
from hivemem_memory.decisions.preconditions import expired
from hivemem_memory.decisions.value_conditions import FieldValue, meets
from hivemem_memory.endpoints.wire_format import memory_fields
from hivemem_memory.entities.memories import MEMORY, MemoryHead
from hivemem_runtime.clock import now_microseconds
from hivemem_runtime.ledger.entity import Scalar
from hivemem_runtime.ledger.pages import pages
from hivemem_runtime.ledger.places import below, namespace_and_key, scope_of
from hivemem_runtime.ledger.port import Covered, Head, Ledger
from hivemem_runtime.paging import EXAMINED, READ_AT_ONCE, Bookmark, Lines
from hivemem_runtime.service import Call, Service

COUNTED_AT_ONCE: Final = 1_000
"""The number of index entries that are read before other tasks may run."""


@dataclass(frozen=True, slots=True)
class IndexRange:
    """An index and a range of it. `sieved` says that its entries need filtering."""

    index: str
    equals: Mapping[str, Scalar]
    low: Scalar
    high: Scalar
    reverse: bool = False
    sieved: bool = False


def index_range(body: requests.ListMemories) -> IndexRange:
    """Return the most selective declared index for a request."""
    return _by_place(body) if body.sort == "key" else _by_time(body)


def _by_place(body: requests.ListMemories) -> IndexRange:
    kind, creator = body.memory_type, body.created_by
    later = body.updated_after is not None or body.valid_at is not None or body.where is not None
    low, high = below(body.prefix)
    if body.include_deleted:
        return IndexRange("current", {}, low, high, sieved=later or kind is not None or creator is not None)
    if creator is not None:
        return IndexRange("creator", {"created_by": creator}, low, high, sieved=later or kind is not None)
    if kind is not None:
        return IndexRange("type", {"memory_type": kind}, low, high, sieved=later)
    return IndexRange("live", {}, low, high, sieved=later)


def _by_time(body: requests.ListMemories) -> IndexRange:
    """Return an index ordered by time. It has no range of places, so only the scope of the prefix narrows it."""
    after = _moment(body.updated_after)
    low = None if after is None else after + 1
    if ":" in body.prefix:
        scope = scope_of(body.prefix)
        sieved = body.prefix != scope or any(
            one is not None for one in (body.memory_type, body.created_by, body.valid_at, body.where)
        )
        return IndexRange("scope_update", {"scope": scope}, low, None, reverse=True, sieved=sieved)
    if body.memory_type is not None and not body.include_deleted:
        return IndexRange("type_update", {"memory_type": body.memory_type}, low, None, reverse=True, sieved=True)
    return IndexRange("update", {}, low, None, reverse=True, sieved=True)


@dataclass(frozen=True, slots=True)
class MemoryFilter:
    """The fields that a memory must match, whichever index finds it."""

    prefix: str
    kind: str | None
    creator: str | None
    deleted: bool
    now: int
    after: int | None = None
    valid_at: int | None = None
    where: Mapping[str, FieldValue] | None = None

    def ended(self, memory: MemoryHead) -> bool:
        return memory.deleted or expired(memory, self.now)

    def holds(self, place: str, memory: MemoryHead) -> bool:
        return (
            (self.deleted or not self.ended(memory))
            and (self.kind is None or memory.memory_type == self.kind)
            and (self.creator is None or memory.created_by == self.creator)
            and (self.after is None or memory.updated_at > self.after)
            and (self.valid_at is None or _valid(memory, self.valid_at))
            and covers(self.prefix, namespace_and_key(place)[0])
            and (self.where is None or (not self.ended(memory) and meets(memory.value, self.where)))
        )


def _valid(memory: MemoryHead, at: int) -> bool:
    start, end = memory.valid_from, memory.valid_to
    return (start is None or start <= at) and (end is None or at < end)


class IndexScan:
    """A scan of an index until the answer is complete."""

    def __init__(self, ledger: Ledger, tenant: str, way: IndexRange, sieve: MemoryFilter, lines: Lines) -> None:
        self._ledger = ledger
        self._tenant = tenant
        self._way = way
        self._sieve = sieve
        self._lines = lines
        self._budget = EXAMINED

    async def fill(self, cursor: str | None) -> str | None:
        """Scan the index from a cursor on, and return the next cursor."""
        while True:
            size = min(self._lines.wanted(sieved=self._way.sieved), self._budget)
            cursor, cut = await self._read(cursor, size)
            if cut or cursor is None or self._budget <= 0 or self._lines.complete:
                return cursor

    async def _read(self, cursor: str | None, size: int) -> tuple[str | None, bool]:
        """Read one page of the index. If not all of its heads fit the answer, read a shorter page again, because
        only the index knows the cursor after a head."""
        held, asked = len(self._lines), size
        while True:
            page = await self._ledger.find(
                MEMORY,
                self._tenant,
                self._way.index,
                equals=self._way.equals,
                low=self._way.low,
                high=self._way.high,
                reverse=self._way.reverse,
                cursor=cursor,
                limit=size,
            )
            taken = self._take(page.items)
            if taken == len(page.items):
                self._budget -= taken
                return page.cursor, size < asked
            self._lines.cut(held)
            if taken == 0:
                return cursor, True
            size = taken

    def _take(self, heads: list[Head[MemoryHead]]) -> int:
        """Add matching memories to the answer, and return how many heads were examined before it was complete."""
        for number, head in enumerate(heads):
            memory = head.value
            if memory is None or not self._sieve.holds(head.id, memory):
                continue
            if not self._lines.add(memory_fields(head.id, memory, ended=self._sieve.ended(memory))):
                return number
        return len(heads)


def bind(service: Service) -> None:
    lists = MemoryLists(service.ledger)
    service.handler(operations.LIST, lists.list)
    service.handler(operations.COUNT, lists.count)


class MemoryLists:
    """The operations `list` and `count`."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    async def list(self, call: Call, body: requests.ListMemories) -> bytes:
        after, valid_at = _moment(body.updated_after), _moment(body.valid_at)
        kind, creator, deleted = body.memory_type, body.created_by, body.include_deleted
        bookmark = Bookmark(
            "list", body.prefix, kind, creator, after, valid_at, deleted, body.sort, *sorted((body.where or {}).items())
        )
        cursor, average = bookmark.find(body.cursor, str, int) if body.cursor else (None, 0)
        sieve = MemoryFilter(body.prefix, kind, creator, deleted, now_microseconds(), after, valid_at, body.where)
        lines = Lines(body.limit, average)
        reached = await IndexScan(self._ledger, call.sender.tenant, index_range(body), sieve, lines).fill(cursor)
        return lines.answer(None if reached is None else bookmark.put(reached, lines.average))

    async def count(self, call: Call, body: requests.CountMemories) -> replies.MemoryCount:
        tenant = call.sender.tenant
        sieve = MemoryFilter(body.prefix, body.memory_type, body.created_by, True, now_microseconds())
        counted = await self._counted(tenant, sieve, deleted=body.include_deleted)
        if not body.include_deleted:
            counted -= await self._expired(tenant, sieve)
        return replies.MemoryCount(count=max(counted, 0))

    async def _counted(self, tenant: str, sieve: MemoryFilter, *, deleted: bool) -> int:
        """Count in the indexes. No index is ordered by both kind and creator, so one of them is filtered."""
        kind, creator = sieve.kind, sieve.creator
        named = {"memory_type": kind, "created_by": creator}
        wanted = {name: value for name, value in named.items() if value is not None}
        if deleted:
            return await self._looked_through(tenant, "current", {}, sieve.prefix, wanted)
        if kind is not None and creator is not None:
            equals = {"created_by": creator}
            return await self._looked_through(tenant, "creator", equals, sieve.prefix, {"memory_type": kind})
        index = "live" if not wanted else "type" if kind is not None else "creator"
        return await self._looked_through(tenant, index, wanted, sieve.prefix, {})

    async def _looked_through(
        self, tenant: str, index: str, equals: Mapping[str, Scalar], prefix: str, wanted: Mapping[str, Scalar]
    ) -> int:
        low, high = below(prefix)
        if not wanted:
            return await self._ledger.count(MEMORY, tenant, index, equals=equals, low=low, high=high)
        counted = 0
        async for entries in pages(
            lambda cursor: self._ledger.covered(
                MEMORY, tenant, index, equals=equals, low=low, high=high, cursor=cursor, limit=COUNTED_AT_ONCE
            )
        ):
            counted += sum(_agrees(entry, wanted) for entry in entries)
            await asyncio.sleep(0)
        return counted

    async def _expired(self, tenant: str, sieve: MemoryFilter) -> int:
        """Return how many memories the indexes still count as living although they have expired."""
        counted = 0
        async for heads in pages(
            lambda cursor: self._ledger.find(
                MEMORY, tenant, "expiry", equals={}, high=sieve.now + 1, cursor=cursor, limit=READ_AT_ONCE
            )
        ):
            counted += sum(head.value is not None and sieve.holds(head.id, head.value) for head in heads)
            await asyncio.sleep(0)
        return counted


def _agrees(entry: Covered, wanted: Mapping[str, Scalar]) -> bool:
    return all(entry.values[name] == value for name, value in wanted.items())


def _moment(moment: datetime | None) -> int | None:
    return None if moment is None else microseconds_from_time(moment)
