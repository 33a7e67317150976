"""Comparing the memories with what a tenant's chain says of them, link by link in its order."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from itertools import islice
from typing import Final, NamedTuple

from hivemem_memory.endpoints.links import UNREADABLE, linked_version, tells
from hivemem_memory.endpoints.unlinked import is_on_its_way
from hivemem_memory.entities.audit import CHAIN, CHAIN_ID, Link
from hivemem_memory.entities.memories import (
    ANNOUNCED_AS,
    MEMORY,
    MemoryHead,
    MemoryRecord,
    digest_of,
    evolve_memory,
)
from hivemem_runtime.ledger.places import place_of
from hivemem_runtime.ledger.port import Head, Ledger, Record

AWAITED: Final = 5_000
"""Memories whose later links are waited for; past it the oldest are looked up."""
LOOKED_UP_AT_ONCE: Final = 100


class Broken(Exception):
    """A link that does not hold, and why."""

    def __init__(self, position: int, problem: str) -> None:
        super().__init__(problem)
        self.position = position
        self.problem = problem


class Suspect(Broken):
    """It does not hold because of what should come later in the chain: one that is broken there is the cause."""


class Place(NamedTuple):
    """Behind which link to go on: its position and its hash."""

    position: int
    hash: str


class TooEarly(Exception):
    """What a link is compared with is not in the chain yet; it is to be looked at again, from a place on."""

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        self.place = place


class Told(NamedTuple):
    """A link that tells of a memory, and where the one before it stands."""

    link: Link
    before: Place

    @property
    def id(self) -> str:
        return place_of(self.link.namespace or "", self.link.key)

    @property
    def version(self) -> int:
        return self.link.to_version or 0


class Awaited(NamedTuple):
    """A link that another one of the same memory has to follow, because its newest version is a later one."""

    told: Told
    head: Head[MemoryHead]


Version = Record[MemoryRecord] | str | None
"""What a link tells of: None where it is not there, or why it cannot be read."""


class Comparison:
    """`current` waits a moment and says whether the chain has all that the feed has."""

    def __init__(self, ledger: Ledger, tenant: str, current: Callable[[], Awaitable[bool]]) -> None:
        self._ledger = ledger
        self._tenant = tenant
        self._current = current
        self._awaited: dict[str, Awaited] = {}

    async def compare(self, links: Sequence[Told]) -> None:
        """The next links of the chain that tell of memories. Raises for the first that does not hold."""
        ids = list(dict.fromkeys(told.id for told in links))
        versions = await self._versions(links)
        # After the versions: one that was erased in between is seen to be erased.
        heads = await self._heads(ids)
        for told, version in zip(links, versions, strict=True):
            awaited = self._awaited.pop(told.id, None)
            if awaited is not None:
                _require_following(awaited.told, told.link)
            else:
                await self._require_begun(told)
            head = heads.get(told.id)
            if isinstance(head, str):
                raise Broken(told.link.position, head)
            if version is None and head is not None and head.value is not None and told.link.operation != "erased":
                version, head = await self._look_again(told)
            if isinstance(version, str):
                raise Broken(told.link.position, version)
            found = await self._compare_one(told, version, head)
            if found.version > told.version:
                self._awaited[told.id] = Awaited(told, found)
        if len(self._awaited) > AWAITED:
            await self._look_up(list(islice(self._awaited, AWAITED // 2)))

    async def _require_begun(self, told: Told) -> None:
        """Raises for a memory whose first link is of a later version than its first, unless the earlier ones are
        erased."""
        before = told.link.from_version
        if before is None or await linked_version(self._ledger, self._tenant, told.id, told.link.position):
            return
        if await self._read_version(told.id, before) is not None:
            raise Broken(told.link.position, f"the chain has no link of the memory's version {before}")

    async def settle(self) -> None:
        """Look up what has not come by. Nothing is awaited any more then."""
        await self._look_up(list(self._awaited))

    async def _versions(self, links: Sequence[Told]) -> list[Version]:
        """In one read, as far as each is the newest one as of the last link's time."""
        written = [told for told in links if told.link.operation != "erased"]
        if not written:
            return [None] * len(links)
        ids = list(dict.fromkeys(told.id for told in written))
        at = max(told.link.at for told in written)
        try:
            found = await self._ledger.as_of(MEMORY, self._tenant, ids, at)
        except UNREADABLE:
            found = {}
        return await asyncio.gather(*(self._version(told, found.get(told.id)) for told in links))

    async def _version(self, told: Told, found: Record[MemoryRecord] | None) -> Version:
        if found is None or found.stamp.version == told.version:
            return found
        return await self._read_version(told.id, told.version)

    async def _read_version(self, id: str, version: int) -> Version:
        try:
            return await self._ledger.record(MEMORY, self._tenant, id, version)
        except UNREADABLE:
            return f"version {version} of the memory cannot be read"

    async def _look_again(self, told: Told) -> tuple[Version, Head[MemoryHead] | None]:
        """For a version that was not there at its time, of a memory that lives."""
        version = await self._read_version(told.id, told.version)
        return version, await self._ledger.head(MEMORY, self._tenant, told.id)

    async def _heads(self, ids: Sequence[str]) -> dict[str, Head[MemoryHead] | str]:
        try:
            return dict(await self._ledger.heads(MEMORY, self._tenant, ids))
        except UNREADABLE:
            found: dict[str, Head[MemoryHead] | str] = {}
        for id in ids:
            try:
                head = await self._ledger.head(MEMORY, self._tenant, id)
            except UNREADABLE:
                found[id] = "the memory's newest state cannot be read"
            else:
                if head is not None:
                    found[id] = head
        return found

    async def _compare_one(
        self, told: Told, version: Record[MemoryRecord] | None, head: Head[MemoryHead] | None
    ) -> Head[MemoryHead]:
        """Answers the head."""
        link = told.link
        if head is None:
            raise Broken(link.position, "the memory is gone, and nobody erased it")
        newest = head.version == told.version
        if head.version < told.version:
            raise Broken(link.position, f"the memory's newest state is of version {head.version}")
        if newest and (head.value is None) != (link.operation == "erased"):
            raise Broken(link.position, "the memory is gone, or there again, and nobody erased it or wrote it")
        if link.operation == "erased":
            return head
        if version is None:
            if head.value is not None and not await self._erased_since(told):
                raise Suspect(link.position, f"version {told.version} of the memory is missing, and nobody erased it")
            return head
        problem = _differing(link, version)
        if problem is None and newest and head.value is not None:
            problem = await self._differing_head(told.id, version, head.value)
        if problem is not None:
            raise Broken(link.position, problem)
        return head

    async def _differing_head(self, id: str, version: Record[MemoryRecord], head: MemoryHead) -> str | None:
        """The head again from its version; what a deletion keeps for a restore stands in the version before."""
        before: MemoryHead | None = None
        if version.value.deleted:
            last = await self._ledger.record(MEMORY, self._tenant, id, version.stamp.version - 1)
            before = None if last is None else evolve_memory(None, last.value, last.stamp)
        expected = evolve_memory(before, version.value, version.stamp)
        # When it was erased before stands in the first version after that alone.
        if replace(head, erased_at=expected.erased_at) != expected:
            return f"the memory's newest state does not say what its version {expected.version} says"
        return None

    async def _erased_since(self, told: Told) -> bool:
        if await self._next_link(told, "erased") is not None:
            return True
        if not await self._current():
            raise TooEarly(told.before)
        return await self._next_link(told, "erased") is not None

    async def _look_up(self, ids: Sequence[str]) -> None:
        """The links that should follow, of memories that are awaited; a few at a time."""
        for start in range(0, len(ids), LOOKED_UP_AT_ONCE):
            awaited = [self._awaited.pop(id) for id in ids[start : start + LOOKED_UP_AT_ONCE]]
            missing = await self._not_followed(awaited)
            if missing and not await self._current():
                raise TooEarly(missing[0].told.before)
            for each in await self._not_followed(missing):
                await self._require_old(each)

    async def _not_followed(self, awaited: Sequence[Awaited]) -> list[Awaited]:
        following = await asyncio.gather(*(self._next_link(each.told) for each in awaited))
        for each, link in zip(awaited, following, strict=True):
            if link is not None and link is not UNKNOWN:
                _require_following(each.told, link)
        return [each for each, link in zip(awaited, following, strict=True) if link is None]

    async def _require_old(self, awaited: Awaited) -> None:
        """What was written just now may not be announced yet; what was written long ago and never linked was not
        written by the fleet."""
        told, head = awaited
        version = await self._read_version(told.id, told.version + 1)
        at = version.stamp.at if isinstance(version, Record) else head.at
        if await is_on_its_way(self._ledger, self._tenant, told.id, told.version + 1, at):
            raise TooEarly(told.before)
        raise Suspect(told.link.position, f"the memory has version {head.version}, and the chain none after this one")

    async def _next_link(self, told: Told, operation: str | None = None) -> Link | None:
        """The next one that tells of a version of the same memory; of one operation, where that is said."""
        after = told.link.position
        while True:
            try:
                records = await self._ledger.history(
                    CHAIN,
                    self._tenant,
                    CHAIN_ID,
                    after=after,
                    limit=LOOKED_UP_AT_ONCE if operation else 1,
                    by_position=True,
                    tag=("place", told.id),
                )
            except UNREADABLE:
                return UNKNOWN
            for record in records:
                after = record.value.position
                if tells(record.value) and operation in (None, record.value.operation):
                    return record.value
            if not records:
                return None


UNKNOWN: Final = Link(0, 0, "", "", "", "")
"""Stands for a later link that cannot be read: it is found to be broken when it is its turn."""


def _require_following(told: Told, following: Link) -> None:
    if following.from_version != told.version:
        raise Suspect(following.position, f"the chain has no link of the memory's version {following.from_version}")


def _differing(link: Link, version: Record[MemoryRecord]) -> str | None:
    """What of a version is not as its link says."""
    name = f"version {link.to_version} of the memory"
    record, stamp = version.value, version.stamp
    if link.digest is not None and not digest_of(record) == record.digest == link.digest:
        return f"{name} does not say what was written"
    if ANNOUNCED_AS.get(record.operation) != link.operation:
        return f"{name} was made by another operation"
    if (stamp.actor, stamp.at, stamp.cause) != (link.actor, link.at, link.request_id):
        return f"{name} names another writer, time or request"
    return None
