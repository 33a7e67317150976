"""The memories of a tenant against what the index has heard of them: changes that the feed lost are made up for."""

import asyncio
from collections.abc import Collection, Sequence
from typing import Any, Final

from hivemem_runtime.ledger.current import current_values
from hivemem_runtime.ledger.pages import pages
from hivemem_runtime.ledger.places import below, place_of
from hivemem_runtime.ledger.port import Covered, Ledger
from hivemem_vectors.pipeline.decisions.changes import ItemVersion, microseconds, version_of_memory
from hivemem_vectors.pipeline.endpoints.indexing import Indexer
from hivemem_vectors.pipeline.endpoints.peers import AGENT, FeedPosition, MemoryService
from hivemem_vectors.pipeline.entities import ITEM, Item, is_event, named
from hivemem_vectors.upkeep.decisions import Position, Tally

PAGE: Final = 200
LOOKED_THROUGH_AT_ONCE: Final = 1_000
"""Entries of the index before others have their turn."""
SETTLED_SECONDS: Final = 60.0
"""Younger writes may not be on the feed yet."""
LOOK_SECONDS: Final = 3.0
"""Between the two looks after which something is held to be as it seems."""


class MemorySweep:
    """Sweeps memories by pages in the order of their places. Items between two memories belong to their page."""

    def __init__(
        self,
        ledger: Ledger,
        memories: MemoryService,
        indexer: Indexer,
        feed: FeedPosition,
        *,
        settled_seconds: float = SETTLED_SECONDS,
        look_seconds: float = LOOK_SECONDS,
    ) -> None:
        self._ledger = ledger
        self._memories = memories
        self._indexer = indexer
        self._feed = feed
        self._settled = int(settled_seconds * 1_000_000)
        self._look_seconds = look_seconds

    async def page(self, tenant: str, at: Position, *, dry_run: bool) -> tuple[Tally, Position | None]:
        """Sweep a page of one root. The mark of the position is a cursor of the memory service, and its `low` the place
        behind the page before."""
        # Before the memories are read: what was taken up by then is known when the items are read.
        before = await self._feed.reaches_back_to() - self._settled
        memories, cursor = await self._memories.page(tenant, at.part, limit=PAGE, cursor=at.mark or None)
        places = [place_of(memory["namespace"], memory["key"]) for memory in memories]
        tally = Tally(checked=len(places))
        told = await self._unheard(tenant, dict(zip(places, memories, strict=True)), before, tally)
        end = below(at.part)[1] if cursor is None else places[-1] + "\x00"
        told += await self._forgotten(tenant, at.low, end, set(places), tally)
        if told and not dry_run:
            await self._indexer.take_up(told)
        return tally, None if cursor is None else at._replace(mark=cursor, low=end)

    async def _unheard(
        self, tenant: str, memories: dict[str, dict[str, Any]], before: int, tally: Tally
    ) -> list[ItemVersion]:
        items = await current_values(self._ledger, ITEM, tenant, memories)
        told: list[ItemVersion] = []
        for place, memory in memories.items():
            item = items.get(place)
            if microseconds(memory["updated_at"]) >= before or not _is_unheard(item, memory):
                continue
            told.append(version_of_memory(tenant, memory))
            if not memory["deleted"]:
                tally.missing += 1
            elif item is not None and item.indexed is not None:
                tally.left_over += 1
        return told

    async def _forgotten(
        self, tenant: str, low: str, high: str, places: Collection[str], tally: Tally
    ) -> list[ItemVersion]:
        """Return the items of erased memories whose erasure the index has missed."""
        suspects = await self._unknown(tenant, low, high, places)
        if suspects:
            suspects = await self._still_unknown(tenant, suspects)
        tally.left_over += len(suspects)
        # An erasure is the version behind the last one, if not a later one.
        return [ItemVersion(tenant, place, heard + 1, True, {}, None) for place, heard in suspects.items()]

    async def _unknown(self, tenant: str, low: str, high: str, places: Collection[str]) -> dict[str, int]:
        """Return items of unknown memories, with their newest known versions."""
        found: dict[str, int] = {}
        async for entries in pages(
            lambda cursor: self._ledger.covered(
                ITEM, tenant, "all", equals={}, low=low, high=high, cursor=cursor, limit=LOOKED_THROUGH_AT_ONCE
            )
        ):
            found.update(_living(entries, places))
            if len(found) > LOOKED_THROUGH_AT_ONCE:
                break
            await asyncio.sleep(0)
        return found

    async def _still_unknown(self, tenant: str, suspects: dict[str, int]) -> dict[str, int]:
        """Return the items that are still unknown at a second look. Nothing may wait on the feed then, because the feed
        announces erasures with their receipts."""
        suspects = await self._not_in_memory(tenant, suspects)
        if not suspects:
            return {}
        await asyncio.sleep(self._look_seconds)
        if await self._feed.changes():
            return {}
        items = await current_values(self._ledger, ITEM, tenant, suspects)
        same = {place: item.heard for place, item in items.items() if item.heard == suspects[place] and not item.gone}
        return await self._not_in_memory(tenant, same)

    async def _not_in_memory(self, tenant: str, suspects: dict[str, int]) -> dict[str, int]:
        names = {named(place): place for place in suspects}
        known = await self._memories.get_many(tenant, AGENT, list(names)) if names else {}
        unknown = [(name, place) for name, place in names.items() if name not in known]
        return {
            place: suspects[place]
            for name, place in unknown
            if await self._memories.newest(tenant, AGENT, name) is None
        }


def _is_unheard(item: Item | None, memory: dict[str, Any]) -> bool:
    if item is None:
        return not memory["deleted"]
    return item.heard < int(memory["version"])


def _living(entries: Sequence[Covered], places: Collection[str]) -> dict[str, int]:
    return {
        entry.id: int(entry.values["heard"] or 0)
        for entry in entries
        if not entry.values["gone"] and entry.id not in places and not is_event(entry.id)
    }
