"""The items of a tenant against the points that the store really has, and the other way round.

Both ways go page by page and keep nothing in between: for the items of a page the store is asked by their places, for
the points of a page the ledger is.
"""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from hivemem_runtime.ledger.current import current_values
from hivemem_runtime.ledger.port import Ledger, system_write
from hivemem_vectors.pipeline.decisions.keywords import SCHEME
from hivemem_vectors.pipeline.decisions.points import PointName, parsed
from hivemem_vectors.pipeline.endpoints.indexing import Indexer
from hivemem_vectors.pipeline.entities import ITEM, Item, is_event
from hivemem_vectors.stores.guarded import GuardedStore
from hivemem_vectors.stores.ports import Filter, OneOf, StoredPoint
from hivemem_vectors.upkeep.decisions import Tally, counts, is_done_with, lose
from hivemem_vectors.upkeep.endpoints.memory_sweep import LOOK_SECONDS

ITEMS: Final = 200
"""The items of one page, whose places fit one filter of the store."""
POINTS: Final = 250
"""The points of one page, whose items are read from the ledger at once."""


class ItemSweep:
    def __init__(
        self,
        ledger: Ledger,
        store: GuardedStore,
        indexer: Indexer,
        *,
        collection: str,
        look_seconds: float = LOOK_SECONDS,
    ) -> None:
        self._ledger = ledger
        self._store = store
        self._indexer = indexer
        self._collection = collection
        self._look_seconds = look_seconds

    async def items(self, tenant: str, low: str, *, dry_run: bool) -> tuple[Tally, str | None]:
        """Sweep a page of items from a place on. Returns where the next page begins."""
        page = await self._ledger.find(ITEM, tenant, "all", equals={}, low=low, limit=ITEMS)
        items = {head.id: head.value for head in page.items if head.value is not None}
        found = await self._found(tenant, items)
        lacking = {
            place: item for place, item in items.items() if item.indexed is not None and found[place] < item.chunks
        }
        lost = await self._still_lost(tenant, lacking)
        # Memories are counted by the memory sweep.
        tally = Tally(checked=sum(is_event(head.id) for head in page.items), missing=len(lost))
        if lost and not dry_run:
            await self._restore(tenant, lost)
        return tally, None if page.cursor is None else page.items[-1].id + "\x00"

    async def points(self, tenant: str, after: str | None, *, dry_run: bool) -> tuple[Tally, str | None]:
        """Sweep a page of points behind a mark of the store. Returns the next mark."""
        page = await self._store.scroll(self._collection, Filter(tenant), after=after, limit=POINTS)
        left_over = await self._left_over(tenant, page.points)
        tally = Tally(left_over=len(left_over))
        if left_over and not dry_run:
            await self._store.delete(self._collection, tenant, list(left_over))
            await self._restore_wanted(tenant, left_over)
        return tally, page.next

    async def _found(self, tenant: str, items: Mapping[str, Item]) -> Counter[str]:
        """Return how many points with words of today the store has of each item's indexed version."""
        found = Counter[str]()
        places = [place for place, item in items.items() if item.chunks]
        if places:
            async for points in self._store.scroll_all(self._collection, Filter(tenant, [OneOf("place", places)])):
                names = [_named(point.id) for point in points if point.values.get("scheme") == SCHEME]
                found.update(name.place for name in names if counts(items, name))
        return found

    async def _still_lost(self, tenant: str, lacking: Mapping[str, Item]) -> dict[str, int]:
        """Return the lost items with their versions, after a second look at the ledger. A version's points are removed
        only after the ledger has the next version."""
        now = await current_values(self._ledger, ITEM, tenant, lacking)
        return {
            place: item.indexed
            for place, item in now.items()
            if item.indexed is not None
            and (item.indexed, item.chunks) == (lacking[place].indexed, lacking[place].chunks)
        }

    async def _left_over(self, tenant: str, points: Sequence[StoredPoint]) -> dict[str, PointName]:
        """Return the points that do not count and never will, by their names."""
        named = {point.id: _named(point.id) for point in points}
        items = await self._items_of(tenant, named)
        idle = {id: name for id, name in named.items() if not counts(items, name)}
        done = {id: name for id, name in idle.items() if is_done_with(items, name)}
        doubtful = {id: name for id, name in idle.items() if id not in done}
        if doubtful:
            await asyncio.sleep(self._look_seconds)
            items = await self._items_of(tenant, doubtful)
            done.update((id, name) for id, name in doubtful.items() if not counts(items, name))
        return done

    async def _restore_wanted(self, tenant: str, deleted: Mapping[str, PointName]) -> None:
        """Restore points that came to count between the last look and the deletion."""
        items = await self._items_of(tenant, deleted)
        wanted = {name.place: name.version for name in deleted.values() if counts(items, name)}
        if wanted:
            await self._restore(tenant, wanted)

    async def _items_of(self, tenant: str, named: Mapping[str, PointName]) -> dict[str, Item]:
        return await current_values(self._ledger, ITEM, tenant, {name.place for name in named.values()})

    async def _restore(self, tenant: str, lost: Mapping[str, int]) -> None:
        """Restore lost items from their mirrors; items without fitting embeddings are indexed anew."""
        left = await self._indexer.restore(tenant, lost)
        if left:
            versions = [(place, lost[place]) for place in left]
            reads = [(ITEM, place) for place in left]
            await self._ledger.commit(
                system_write(tenant, ITEM, left[0], lambda heads, now: lose(heads, versions, now), reads)
            )
            await self._indexer.again(tenant, left)


def _named(id: str) -> PointName:
    """Return the parsed name; a foreign point belongs to nothing."""
    try:
        return parsed(id)
    except ValueError:
        return PointName("", 0, 0)
