"""Users' own vectors against the points that the store really has of them, and the other way round.

A point is written only once the ledger has its version, and read here before the ledger is: so what is not wanted by
then will never be. How far the index is with a vector says enough; the vectors themselves are not read.
"""

from collections.abc import Sequence
from typing import Final

from hivemem_runtime.batches import grouped
from hivemem_runtime.ledger.current import current_values
from hivemem_runtime.ledger.pages import pages
from hivemem_runtime.ledger.port import Ledger
from hivemem_vectors.own.decisions import VectorPoint, parsed, physical
from hivemem_vectors.own.entities import COLLECTION, PROGRESS, VECTOR, VectorProgress
from hivemem_vectors.own.reactions import VectorSync
from hivemem_vectors.stores.guarded import GuardedStore
from hivemem_vectors.stores.ports import POINTS_PER_CALL, Filter, OneOf
from hivemem_vectors.upkeep.decisions import Tally

VECTORS: Final = 200
"""The vectors of one page, which fit one filter of the store."""
POINTS: Final = 250


class VectorSweep:
    def __init__(self, ledger: Ledger, store: GuardedStore, sync: VectorSync) -> None:
        self._ledger = ledger
        self._store = store
        self._sync = sync

    async def dimensions(self, tenant: str) -> list[int]:
        """Return the dimensions of the tenant's collections, each once, in order."""
        found: set[int] = set()
        async for heads in pages(
            lambda cursor: self._ledger.find(COLLECTION, tenant, "all", equals={}, cursor=cursor, limit=POINTS_PER_CALL)
        ):
            found.update(head.value.dimension for head in heads if head.value is not None)
        return sorted(found)

    async def vectors(self, tenant: str, low: str, *, dry_run: bool) -> tuple[Tally, str | None]:
        """Sweep a page of vectors from one on. Returns where the next page begins."""
        page = await self._ledger.covered(VECTOR, tenant, "living", equals={}, low=low, limit=VECTORS)
        missing = await self._missing(tenant, [found.id for found in page.items])
        if missing and not dry_run:
            await self._sync.settle(tenant, missing)
        tally = Tally(checked=len(page.items), missing=len(missing))
        return tally, None if page.cursor is None else page.items[-1].id + "\x00"

    async def points(
        self, tenant: str, dimension: int, after: str | None, *, dry_run: bool
    ) -> tuple[Tally, str | None]:
        """Sweep a page of points of one dimension behind a mark of the store. Returns the next mark."""
        page = await self._store.scroll(physical(dimension), Filter(tenant), after=after, limit=POINTS)
        named = {point.id: _named(point.id) for point in page.points}
        progress = await current_values(self._ledger, PROGRESS, tenant, {point.vector for point in named.values()})
        left_over = [name for name, point in named.items() if not _counts(progress.get(point.vector), point)]
        if left_over and not dry_run:
            await self._store.delete(physical(dimension), tenant, left_over)
        return Tally(left_over=len(left_over)), page.next

    async def _missing(self, tenant: str, vectors: Sequence[str]) -> list[str]:
        """Return indexed vectors that the store lacks, if nothing changed meanwhile."""
        indexed = await self._indexed(tenant, vectors)
        dimensions = await self._sync.dimensions_of(tenant, {found.collection for found in indexed.values()})
        by_dimension = grouped([(dimensions[found.collection], vector) for vector, found in indexed.items()])
        there: set[VectorPoint] = set()
        for dimension, some in by_dimension.items():
            async for points in self._store.scroll_all(physical(dimension), Filter(tenant, [OneOf("vector", some)])):
                there.update(_named(point.id) for point in points)
        missing = [vector for vector, found in indexed.items() if VectorPoint(vector, found.version) not in there]
        now = await self._indexed(tenant, missing)
        return [vector for vector, found in now.items() if found == indexed[vector]]

    async def _indexed(self, tenant: str, vectors: Sequence[str]) -> dict[str, VectorProgress]:
        """Return the vectors that the index has by the ledger. Waiting ones are left to the timer."""
        progress = await current_values(self._ledger, PROGRESS, tenant, vectors)
        return {
            vector: found for vector, found in progress.items() if not found.waiting and found.indexed == found.version
        }


def _named(id: str) -> VectorPoint:
    """Return the parsed name; a foreign point belongs to nothing."""
    try:
        return parsed(id)
    except ValueError:
        return VectorPoint("", 0)


def _counts(progress: VectorProgress | None, point: VectorPoint) -> bool:
    if progress is None or progress.version != point.version:
        return False
    return progress.waiting or progress.indexed == point.version
