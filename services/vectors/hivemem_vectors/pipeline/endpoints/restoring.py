"""Points made of mirrors: for items whose points are lost or outdated, and for events that got new neighbours."""

from collections.abc import Iterable, Mapping
from itertools import chain
from typing import Final

from hivemem_runtime.batches import grouped, slices
from hivemem_runtime.ledger.current import current_values
from hivemem_runtime.ledger.port import Ledger
from hivemem_vectors.embedders.ports import Embedder, Embeddings
from hivemem_vectors.pipeline.decisions.dialogue import Turn, dialogue_points, turns_around
from hivemem_vectors.pipeline.decisions.points import parsed, points_of
from hivemem_vectors.pipeline.entities import ITEM, MIRROR, Mirror, is_event, unpacked
from hivemem_vectors.stores.guarded import GuardedStore
from hivemem_vectors.stores.ports import ALTERNATIVES_PER_CONDITION, Filter, OneOf, Point

MIRRORS_AT_ONCE: Final = 20
"""A mirror may be of megabytes."""


class PointRestorer:
    """Makes points of mirrors, which needs no model. `collection` holds the points of all items."""

    def __init__(self, ledger: Ledger, store: GuardedStore, embedder: Embedder, collection: str) -> None:
        self._ledger = ledger
        self._store = store
        self._collection = collection
        self._model, self._dimension = embedder.model, embedder.dimension

    async def restore(self, tenant: str, versions: Mapping[str, int]) -> list[str]:
        """Restore the points of items, given the version of each place. Returns the places whose mirrors do not fit."""
        left: list[str] = []
        for places in slices(list(versions), MIRRORS_AT_ONCE):
            left += await self._restore_some(tenant, {place: versions[place] for place in places})
        return left

    async def join(self, tenant: str, events: Mapping[str, int]) -> None:
        """Have new events and their neighbours lend one another words, given the sequence of each place."""
        await self.restore(tenant, await self._around(tenant, events.items()) | dict(events))

    async def _restore_some(self, tenant: str, versions: Mapping[str, int]) -> list[str]:
        events = {place: version for place, version in versions.items() if is_event(place)}
        around = await self._around(tenant, events.items()) if events else {}
        wanted = {**around, **versions}
        mirrors = await current_values(self._ledger, MIRROR, tenant, wanted)
        fitting = {
            place: (mirror, rows)
            for place, mirror in mirrors.items()
            if mirror.version == wanted[place] and (rows := self._rows(mirror)) is not None
        }
        turns = [Turn(place, *found) for place, found in fitting.items() if is_event(place)]
        memories = [points_of(tenant, place, *found) for place, found in fitting.items() if not is_event(place)]
        restored = versions.keys() & fitting.keys()
        await self._put(tenant, versions, [*chain(*memories), *dialogue_points(tenant, turns, restored)])
        return [place for place in versions if place not in restored]

    async def _put(self, tenant: str, versions: Mapping[str, int], points: list[Point]) -> None:
        """Store points, and remove those again whose version does not count any more."""
        await self._store.upsert(self._collection, points)
        by_place = grouped([(parsed(point.id).place, point.id) for point in points])
        items = await current_values(self._ledger, ITEM, tenant, by_place)
        late = [place for place in by_place if (item := items.get(place)) is None or item.indexed != versions[place]]
        await self._store.delete(self._collection, tenant, [id for place in late for id in by_place[place]])

    async def _around(self, tenant: str, events: Iterable[tuple[str, int]]) -> dict[str, int]:
        """Return the indexed events within reach of these, and these themselves, with their sequences."""
        found: dict[str, int] = {}
        for turns in slices(turns_around(events), ALTERNATIVES_PER_CONDITION):
            async for points in self._store.scroll_all(self._collection, Filter(tenant, [OneOf("turn", turns)])):
                found.update((name.place, name.version) for name in map(parsed, (point.id for point in points)))
        return found

    def _rows(self, mirror: Mirror) -> Embeddings | None:
        """Return the embeddings of a mirror if they fit the collection."""
        if not mirror.embeddings or mirror.model != self._model:
            return None
        rows = unpacked(mirror.embeddings, len(mirror.texts))
        return rows if rows.shape[1] == self._dimension else None
