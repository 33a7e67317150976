"""The search for memories without a link: written without the fleet, or lost between the ledger and the chain."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, NamedTuple

from hivemem_memory.decisions.audit_chain import SKEW_MICROSECONDS
from hivemem_memory.decisions.erasures import behind
from hivemem_memory.endpoints.chain_links import UNREADABLE, linked_versions
from hivemem_memory.entities.memories import MEMORY
from hivemem_runtime.clock import now_microseconds
from hivemem_runtime.ledger.places import namespace_and_key
from hivemem_runtime.ledger.port import Covered, Ledger

MEMORIES_AT_ONCE: Final = 100
UNANNOUNCED_MICROSECONDS: Final = 60_000_000
"""A version of this age has been announced and linked, unless the ledger lists it as unannounced."""
DUE: Final = 1_000
"""The maximum number of unannounced keys, over all tenants, that one read returns."""


class UnlinkedMemory(Exception):
    """A memory whose newest version has no link."""

    def __init__(self, place: str, version: int) -> None:
        namespace, key = namespace_and_key(place)
        self.problem = f"the chain has no link of version {version} of memory {key!r} in {namespace!r}"
        super().__init__(self.problem)


class SearchProgress(NamedTuple):
    """The last place that was looked up, the number of memories, and whether the search is complete."""

    place: str
    memories: int
    complete: bool


async def is_on_its_way(ledger: Ledger, tenant: str, place: str, version: int, at: int) -> bool:
    """Return whether a version may still be announced and linked, given its commit time."""
    if abs(now_microseconds() - at) < UNANNOUNCED_MICROSECONDS:
        return True
    try:
        if await ledger.record(MEMORY, tenant, place, version) is None:
            return False
    except UNREADABLE:
        return False
    due = await ledger.due(older_than=now_microseconds() + SKEW_MICROSECONDS, limit=DUE)
    if len(due) == DUE and due[-1].at <= at:
        return True
    return any((each.entity, each.tenant, each.id) == (MEMORY.name, tenant, place) for each in due)


class UnlinkedSearch:
    """Looks up each memory of a tenant in the chain. `current` waits briefly and returns whether the chain has every
    change on the feed."""

    def __init__(self, ledger: Ledger, tenant: str, current: Callable[[], Awaitable[bool]]) -> None:
        self._ledger = ledger
        self._tenant = tenant
        self._current = current

    async def search(self, after: str, until: float) -> SearchProgress:
        """Look up the memories after a place, until a deadline or the first memory whose link may still come. Raises
        `Unlinked`."""
        count = 0
        while asyncio.get_running_loop().time() < until:
            page = await self._ledger.covered(
                MEMORY, self._tenant, "current", equals={}, low=behind(after), limit=MEMORIES_AT_ONCE
            )
            for memory in await self._missing(page.items):
                if await self._may_come(memory):
                    place = page.items.index(memory)
                    return SearchProgress(page.items[place - 1].id if place else after, count + place, complete=False)
                raise UnlinkedMemory(memory.id, _version(memory))
            count += len(page.items)
            if page.cursor is None:
                return SearchProgress(after, count, complete=True)
            after = page.items[-1].id
            await asyncio.sleep(0)
        return SearchProgress(after, count, complete=False)

    async def _may_come(self, memory: Covered) -> bool:
        at = int(memory.values["updated_at"] or 0)
        return not await self._current() or await is_on_its_way(
            self._ledger, self._tenant, memory.id, _version(memory), at
        )

    async def _missing(self, memories: Sequence[Covered]) -> list[Covered]:
        """Return the memories without a link, after the chain has caught up with the feed."""
        for settled in (False, True):
            linked = await linked_versions(self._ledger, self._tenant, [memory.id for memory in memories])
            memories = [memory for memory in memories if linked[memory.id] < _version(memory)]
            if not memories or settled or not await self._current():
                break
        return list(memories)


def _version(memory: Covered) -> int:
    return int(memory.values["version"] or 0)
