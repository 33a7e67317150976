"""Checking a tenant's chain link by link, each linked version in the store, and that every memory has a link."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from hivemem_contracts.memory.replies import AuditVerified
from hivemem_memory.decisions.auditing import hash_of
from hivemem_memory.endpoints.comparing import Broken, Comparison, Place, Suspect, Told, TooEarly
from hivemem_memory.endpoints.links import UNREADABLE, tells
from hivemem_memory.endpoints.unlinked import Memories, Unlinked
from hivemem_memory.entities.audit import CHAIN, CHAIN_ID, ChainHead, Link
from hivemem_runtime.ledger.port import Head, Ledger, Record
from hivemem_runtime.paging import Bookmark

LINKS: Final = 200_000
SECONDS: Final = 2.0
"""What one request looks at; then it answers where to go on."""
SLICE: Final = 100


class Verification:
    """One request's share of it. `current` waits a moment and says whether the chain has all that the feed has."""

    def __init__(self, ledger: Ledger, tenant: str, current: Callable[[], Awaitable[bool]]) -> None:
        self._ledger = ledger
        self._tenant = tenant
        self._compared = Comparison(ledger, tenant, current)
        self._memories = Memories(ledger, tenant, current)
        self._bookmark = Bookmark("verify", tenant)
        self._place = Place(0, "")
        self._memory = ""
        """The place of the last memory that was looked up in the chain. Empty until the chain's end is reached."""
        self._looked_at = 0
        self._looked_up = 0
        self._until = asyncio.get_running_loop().time() + SECONDS
        self._taken: tuple[str | None, int] | None = None
        """The message of the feed that the last link told of which told of one."""
        self._suspect: Suspect | None = None

    async def run(self, cursor: str | None) -> AuditVerified:
        if cursor is not None:
            *place, self._memory = self._bookmark.find(cursor, int, str, str)
            self._place = Place(*place)
        try:
            complete = await self._go_on() and await self._look_up()
        except Broken as broken:
            return self._answer(broken_at=broken.position, problem=broken.problem)
        except Unlinked as unlinked:
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
        """Return whether every memory was looked up in the chain. Raises `Unlinked`."""
        walked = await self._memories.walk(self._memory, self._until)
        self._memory = walked.place
        self._looked_up = walked.memories
        return walked.complete

    async def _go_on(self) -> bool:
        """Whether the end was reached. Raises `Broken`."""
        head = await self._chain_head()
        began = self._place.position
        if head is None or head.value is None:
            if head is not None or began or await self._links(0, 1) != ([], None):
                raise Broken(max(began, 1), "the chain has links, and no head")
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
        except Suspect as suspect:
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
            raise Broken(max(self._place.position, 1), "the chain's head cannot be read") from error

    def _check_head(self, head: ChainHead) -> None:
        same = (head.position, head.hash) == self._place
        if not same or (self._taken is not None and (head.feed, head.sequence) != self._taken):
            raise Broken(self._place.position, "the chain's head does not say what its last link says")

    async def _check_slice(self, through: int) -> None:
        """Raises for the first link that does not hold, whether it is wrong itself or a memory does not agree with it.
        Behind one that is suspect only the chain is looked at."""
        place, taken = self._place, self._taken
        records, problem = await self._links(place.position, through)
        told: list[Told] = []
        for record in records:
            link = record.value
            wrong = _wrong(link, record.stamp.version, place)
            if wrong is not None:
                problem = wrong
                break
            if tells(link):
                told.append(Told(link, place))
            if link.sequence is not None:
                taken = link.feed, link.sequence
            place = Place(link.position, link.hash)
        self._looked_at += place.position - self._place.position
        if self._suspect is None:
            try:
                await self._compared.compare(told)
            except Suspect as suspect:
                self._suspect = suspect
        if place.position < through:
            self._looked_at += 1
            raise Broken(place.position + 1, problem or "the link is missing")
        self._place, self._taken = place, taken

    async def _links(self, after: int, through: int) -> tuple[list[Record[Link]], str | None]:
        """Those that can be read, up to the first that cannot, and why there are no more."""
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


def _wrong(link: Link, version: int, before: Place) -> str | None:
    """What is wrong with a link that should come next behind a place."""
    if version != before.position + 1:
        return "the link is missing"
    if link.position != version:
        return f"the link says that it is number {link.position}"
    try:
        follows = hash_of(before.hash, link) == link.hash
    except UNREADABLE:
        follows = False
    return None if follows else "the link's hash does not follow from what it says and from the link before"
