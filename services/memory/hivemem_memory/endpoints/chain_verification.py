"""The verification of a tenant's chain: each link, each linked version, and that every memory has a link."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from hivemem_contracts.memory.replies import AuditVerified
from hivemem_memory.decisions.audit_chain import hash_of
from hivemem_memory.endpoints.chain_comparison import (
    BrokenLink,
    ChainComparison,
    ChainPosition,
    MemoryLink,
    SuspectLink,
    TooEarly,
)
from hivemem_memory.endpoints.chain_links import UNREADABLE, tells
from hivemem_memory.endpoints.unlinked_memories import UnlinkedMemory, UnlinkedSearch
from hivemem_memory.entities.audit import CHAIN, CHAIN_ID, ChainHead, Link
from hivemem_runtime.ledger.port import Head, Ledger, Record
from hivemem_runtime.paging import Bookmark

LINKS: Final = 200_000
SECONDS: Final = 2.0
"""The limits of one request. Its answer has a cursor if the verification is not complete."""
SLICE: Final = 100


class ChainVerification:
    """One request's part of a verification. `current` waits briefly and returns whether the chain has every change
    on the feed."""

    def __init__(self, ledger: Ledger, tenant: str, current: Callable[[], Awaitable[bool]]) -> None:
        self._ledger = ledger
        self._tenant = tenant
        self._compared = ChainComparison(ledger, tenant, current)
        self._memories = UnlinkedSearch(ledger, tenant, current)
        self._bookmark = Bookmark("verify", tenant)
        self._place = ChainPosition(0, "")
        self._memory = ""
        """The place of the last memory that was looked up in the chain. Empty until the chain's end is reached."""
        self._looked_at = 0
        self._looked_up = 0
        self._until = asyncio.get_running_loop().time() + SECONDS
        self._taken: tuple[str | None, int] | None = None
        """The feed and sequence that the last link with a sequence names."""
        self._suspect: SuspectLink | None = None

    async def run(self, cursor: str | None) -> AuditVerified:
        if cursor is not None:
            *place, self._memory = self._bookmark.find(cursor, int, str, str)
            self._place = ChainPosition(*place)
        try:
            complete = await self._go_on() and await self._look_up()
        except BrokenLink as broken:
            return self._answer(broken_at=broken.position, problem=broken.problem)
        except UnlinkedMemory as unlinked:
            return self._answer(broken_at=None, problem=unlinked.problem)
        cursor = None if complete else self._bookmark.put(*self._place, self._memory)
        return AuditVerified(
            ok=True,
            checked=self._looked_at,
            memories=self._looked_up,
            hash=self._place.hash or None,
            cursor=cursor,
        )

    def _answer(self, *, broken_at: int | None, problem: str) -> AuditVerified:
        return AuditVerified(
            ok=False, checked=self._looked_at, memories=self._looked_up, broken_at=broken_at, problem=problem
        )

    async def _look_up(self) -> bool:
        """Return whether every memory was looked up in the chain. Raises `UnlinkedMemory`."""
        walked = await self._memories.search(self._memory, self._until)
        self._memory = walked.place
        self._looked_up = walked.memories
        return walked.complete

    async def _go_on(self) -> bool:
        """Verify links until a limit, and return whether the end of the chain was reached. Raises `BrokenLink`."""
        head = await self._chain_head()
        began = self._place.position
        if head is None or head.value is None:
            if head is not None or began or await self._links(0, 1) != ([], None):
                raise BrokenLink(max(began, 1), "the chain has links but no head")
            return True
        try:
            await self._walk(min(head.version, began + LINKS))
            complete = self._place.position >= head.version
        except TooEarly as early:
            self._place, complete = early.place, False
        if complete:
            self._check_head(head.value)
        try:
            await self._compared.settle()
        except SuspectLink as suspect:
            self._suspect = min(filter(None, (suspect, self._suspect)), key=lambda each: each.position)
        except TooEarly as early:
            self._place, complete = min(self._place, early.place), False
        if self._suspect is not None:
            raise self._suspect
        return complete

    async def _walk(self, end: int) -> None:
        loop = asyncio.get_running_loop()
        while self._place.position < end and loop.time() < self._until:
            await self._check_slice(min(self._place.position + SLICE, end))
            await asyncio.sleep(0)

    async def _chain_head(self) -> Head[ChainHead] | None:
        try:
            return await self._ledger.head(CHAIN, self._tenant, CHAIN_ID)
        except UNREADABLE as error:
            raise BrokenLink(max(self._place.position, 1), "the chain's head cannot be read") from error

    def _check_head(self, head: ChainHead) -> None:
        same = (head.position, head.hash) == self._place
        if not same or (self._taken is not None and (head.feed, head.sequence) != self._taken):
            raise BrokenLink(self._place.position, "the chain's head does not match its last link")

    async def _check_slice(self, through: int) -> None:
        """Verify the next links and their memories. Raises `Broken` for the first mismatch. After a suspect link
        only the chain itself is verified."""
        place, taken = self._place, self._taken
        records, problem = await self._links(place.position, through)
        linked: list[MemoryLink] = []
        for record in records:
            link = record.value
            wrong = _wrong(link, record.stamp.version, place)
            if wrong is not None:
                problem = wrong
                break
            if tells(link):
                linked.append(MemoryLink(link, place))
            if link.sequence is not None:
                taken = link.feed, link.sequence
            place = ChainPosition(link.position, link.hash)
        self._looked_at += place.position - self._place.position
        if self._suspect is None:
            try:
                await self._compared.compare(linked)
            except SuspectLink as suspect:
                self._suspect = suspect
        if place.position < through:
            self._looked_at += 1
            raise BrokenLink(place.position + 1, problem or "the link is missing")
        self._place, self._taken = place, taken

    async def _links(self, after: int, through: int) -> tuple[list[Record[Link]], str | None]:
        """Return the readable links up to the first unreadable one, and the problem of that one."""
        try:
            return await self._history(after, through), None
        except UNREADABLE:
            links: list[Record[Link]] = []
        for position in range(after, through):
            try:
                links += await self._history(position, position + 1)
            except UNREADABLE:
                break
        return links, "the link cannot be read"

    async def _history(self, after: int, through: int) -> list[Record[Link]]:
        return await self._ledger.history(
            CHAIN, self._tenant, CHAIN_ID, after=after, before=through + 1, limit=through - after
        )


def _wrong(link: Link, version: int, before: ChainPosition) -> str | None:
    """Return why a link does not follow from the one before it, or None."""
    if version != before.position + 1:
        return "the link is missing"
    if link.position != version:
        return f"the link has position {link.position}"
    try:
        follows = hash_of(before.hash, link) == link.hash
    except UNREADABLE:
        follows = False
    return None if follows else "the link's hash does not match its content and the previous link"
