"""The comparison of memories with the links of a tenant's chain, in chain order."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from itertools import islice
from typing import Final, NamedTuple

from hivemem_memory.endpoints.chain_links import UNREADABLE, linked_version, tells
from hivemem_memory.endpoints.unlinked_memories import is_on_its_way
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

AWAITED_LINKS: Final = 5_000
"""The maximum number of memories waiting for a later link; beyond it the oldest ones are looked up."""
LOOKED_UP_AT_ONCE: Final = 100


class BrokenLink(Exception):
    """A broken link, with its position and the problem."""

    def __init__(self, position: int, problem: str) -> None:
        super().__init__(problem)
        self.position = position
        self.problem = problem


class SuspectLink(BrokenLink):
    """A link that looks broken because a later link is missing. If the later link is broken, that one is the cause."""


class ChainPosition(NamedTuple):
    """A position in the chain, and the hash of its link."""

    position: int
    hash: str


class TooEarly(Exception):
    """The chain does not have the link to compare with yet. Verification continues from the place later."""

    def __init__(self, place: ChainPosition) -> None:
        super().__init__(place)
        self.place = place


class MemoryLink(NamedTuple):
    """A link of a memory's version, and the position of the link before it."""

    link: Link
    before: ChainPosition

    @property
    def id(self) -> str:
        return place_of(self.link.namespace or "", self.link.key)

    @property
    def version(self) -> int:
        return self.link.to_version or 0


class AwaitedLink(NamedTuple):
    """A link that is not of the memory's newest version, so another link of that memory must follow."""

    linked: MemoryLink
    head: Head[MemoryHead]


Version = Record[MemoryRecord] | str | None
"""The version that a link names; None if it does not exist, or a text saying why it cannot be read."""


class ChainComparison:
    """Compares links with memories. `current` waits briefly and returns whether the chain has every change on the
    feed."""

    def __init__(self, ledger: Ledger, tenant: str, current: Callable[[], Awaitable[bool]]) -> None:
        self._ledger = ledger
        self._tenant = tenant
        self._current = current
        self._awaited: dict[str, AwaitedLink] = {}

    async def compare(self, links: Sequence[MemoryLink]) -> None:
        """Compare the next links of memories. Raises `BrokenLink` for the first one that does not match."""
        ids = list(dict.fromkeys(linked.id for linked in links))
        versions = await self._versions(links)
        # Heads are read after the versions, so that an erasure between the two reads is visible.
        heads = await self._heads(ids)
        for linked, version in zip(links, versions, strict=True):
            awaited = self._awaited.pop(linked.id, None)
            if awaited is not None:
                _require_following(awaited.linked, linked.link)
            else:
                await self._require_begun(linked)
            head = heads.get(linked.id)
            if isinstance(head, str):
                raise BrokenLink(linked.link.position, head)
            if version is None and head is not None and head.value is not None and linked.link.operation != "erased":
                version, head = await self._look_again(linked)
            if isinstance(version, str):
                raise BrokenLink(linked.link.position, version)
            found = await self._compare_one(linked, version, head)
            if found.version > linked.version:
                self._awaited[linked.id] = AwaitedLink(linked, found)
        if len(self._awaited) > AWAITED_LINKS:
            await self._look_up(list(islice(self._awaited, AWAITED_LINKS // 2)))

    async def _require_begun(self, linked: MemoryLink) -> None:
        """Raise `Broken` if the first link of a memory is not of its first version and the earlier versions are not
        erased."""
        before = linked.link.from_version
        if before is None or await linked_version(self._ledger, self._tenant, linked.id, linked.link.position):
            return
        if await self._read_version(linked.id, before) is not None:
            raise BrokenLink(linked.link.position, f"the chain has no link of the memory's version {before}")

    async def settle(self) -> None:
        """Look up the links of all memories that still wait for one."""
        await self._look_up(list(self._awaited))

    async def _versions(self, links: Sequence[MemoryLink]) -> list[Version]:
        """Return the version of each link. One read finds all versions that were the newest at the time of the last
        link."""
        written = [linked for linked in links if linked.link.operation != "erased"]
        if not written:
            return [None] * len(links)
        ids = list(dict.fromkeys(linked.id for linked in written))
        at = max(linked.link.at for linked in written)
        try:
            found = await self._ledger.as_of(MEMORY, self._tenant, ids, at)
        except UNREADABLE:
            found = {}
        return await asyncio.gather(*(self._version(linked, found.get(linked.id)) for linked in links))

    async def _version(self, linked: MemoryLink, found: Record[MemoryRecord] | None) -> Version:
        if found is None or found.stamp.version == linked.version:
            return found
        return await self._read_version(linked.id, linked.version)

    async def _read_version(self, id: str, version: int) -> Version:
        try:
            return await self._ledger.record(MEMORY, self._tenant, id, version)
        except UNREADABLE:
            return f"version {version} of the memory cannot be read"

    async def _look_again(self, linked: MemoryLink) -> tuple[Version, Head[MemoryHead] | None]:
        """Read the version and the head of a living memory again, because the first read did not find the version."""
        version = await self._read_version(linked.id, linked.version)
        return version, await self._ledger.head(MEMORY, self._tenant, linked.id)

    async def _heads(self, ids: Sequence[str]) -> dict[str, Head[MemoryHead] | str]:
        try:
            return dict(await self._ledger.heads(MEMORY, self._tenant, ids))
        except UNREADABLE:
            found: dict[str, Head[MemoryHead] | str] = {}
        for id in ids:
            try:
                head = await self._ledger.head(MEMORY, self._tenant, id)
            except UNREADABLE:
                found[id] = "the memory's head cannot be read"
            else:
                if head is not None:
                    found[id] = head
        return found

    async def _compare_one(
        self, linked: MemoryLink, version: Record[MemoryRecord] | None, head: Head[MemoryHead] | None
    ) -> Head[MemoryHead]:
        """Compare a link with its version and the memory's head, and return the head."""
        link = linked.link
        if head is None:
            raise BrokenLink(link.position, "the memory is missing without an erasure")
        newest = head.version == linked.version
        if head.version < linked.version:
            raise BrokenLink(link.position, f"the memory's head is at version {head.version}")
        if newest and (head.value is None) != (link.operation == "erased"):
            raise BrokenLink(link.position, "the memory was removed or written without a link")
        if link.operation == "erased":
            return head
        if version is None:
            if head.value is not None and not await self._erased_since(linked):
                raise SuspectLink(
                    link.position, f"version {linked.version} of the memory is missing without an erasure"
                )
            return head
        problem = _differing(link, version)
        if problem is None and newest and head.value is not None:
            problem = await self._differing_head(linked.id, version, head.value)
        if problem is not None:
            raise BrokenLink(link.position, problem)
        return head

    async def _differing_head(self, id: str, version: Record[MemoryRecord], head: MemoryHead) -> str | None:
        """Compare the head with the newest version. The value that a deletion keeps for a restore comes from the
        version before it."""
        before: MemoryHead | None = None
        if version.value.deleted:
            last = await self._ledger.record(MEMORY, self._tenant, id, version.stamp.version - 1)
            before = None if last is None else evolve_memory(None, last.value, last.stamp)
        expected = evolve_memory(before, version.value, version.stamp)
        # Only the first version after an erasure stores the time of that erasure.
        if replace(head, erased_at=expected.erased_at) != expected:
            return f"the memory's head does not match version {expected.version}"
        return None

    async def _erased_since(self, linked: MemoryLink) -> bool:
        if await self._next_link(linked, "erased") is not None:
            return True
        if not await self._current():
            raise TooEarly(linked.before)
        return await self._next_link(linked, "erased") is not None

    async def _look_up(self, ids: Sequence[str]) -> None:
        """Look up the following links of some memories, a few at a time."""
        for start in range(0, len(ids), LOOKED_UP_AT_ONCE):
            awaited = [self._awaited.pop(id) for id in ids[start : start + LOOKED_UP_AT_ONCE]]
            missing = await self._not_followed(awaited)
            if missing and not await self._current():
                raise TooEarly(missing[0].linked.before)
            for each in await self._not_followed(missing):
                await self._require_old(each)

    async def _not_followed(self, awaited: Sequence[AwaitedLink]) -> list[AwaitedLink]:
        following = await asyncio.gather(*(self._next_link(each.linked) for each in awaited))
        for each, link in zip(awaited, following, strict=True):
            if link is not None and link is not UNKNOWN:
                _require_following(each.linked, link)
        return [each for each, link in zip(awaited, following, strict=True) if link is None]

    async def _require_old(self, awaited: AwaitedLink) -> None:
        """Raise `TooEarly` if the version may still be announced, and `SuspectLink` if it was never announced."""
        linked, head = awaited
        version = await self._read_version(linked.id, linked.version + 1)
        at = version.stamp.at if isinstance(version, Record) else head.at
        if await is_on_its_way(self._ledger, self._tenant, linked.id, linked.version + 1, at):
            raise TooEarly(linked.before)
        raise SuspectLink(
            linked.link.position, f"the memory has version {head.version}, but the chain has no link after this one"
        )

    async def _next_link(self, linked: MemoryLink, operation: str | None = None) -> Link | None:
        """Return the next link of a version of the same memory, if given with that operation."""
        after = linked.link.position
        while True:
            try:
                records = await self._ledger.history(
                    CHAIN,
                    self._tenant,
                    CHAIN_ID,
                    after=after,
                    limit=LOOKED_UP_AT_ONCE if operation else 1,
                    by_position=True,
                    tag=("place", linked.id),
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
"""A placeholder for a later link that cannot be read. Its own check reports it as broken."""


def _require_following(linked: MemoryLink, following: Link) -> None:
    if following.from_version != linked.version:
        raise SuspectLink(following.position, f"the chain has no link of the memory's version {following.from_version}")


def _differing(link: Link, version: Record[MemoryRecord]) -> str | None:
    """Return how a version differs from its link, or None."""
    name = f"version {link.to_version} of the memory"
    record, stamp = version.value, version.stamp
    if link.digest is not None and not digest_of(record) == record.digest == link.digest:
        return f"{name} does not match what was written"
    if ANNOUNCED_AS.get(record.operation) != link.operation:
        return f"{name} was made by another operation"
    if (stamp.actor, stamp.at, stamp.cause) != (link.actor, link.at, link.request_id):
        return f"{name} names another writer, time or request"
    return None
