"""Users' own vectors against the points that the store really has of them, and the other way round.

A point is written only once the ledger has its version, and read here before the ledger is: so what is not wanted by
then will never be. How far the index is with a vector says enough; the vectors themselves are not read.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from hivemem_contracts.errors import NotFound
from hivemem_runtime.circuit_breaker import Breaker
from hivemem_runtime.ledger.port import Head, Ledger, value_of
from hivemem_vectors.own.decisions import VectorPoint, parsed, physical
from hivemem_vectors.own.endpoints.sync import Settling
from hivemem_vectors.own.entities import COLLECTION, PROGRESS, VECTOR, VectorProgress
from hivemem_vectors.stores.ports import POINTS_PER_CALL, Filter, OneOf, Page, VectorStore
from hivemem_vectors.upkeep.decisions import Tally
from hivemem_vectors.upkeep.endpoints.collections import Collections

VECTORS: Final = 200
"""In one page: the store is asked for them in one filter."""
POINTS: Final = 250
COLLECTIONS: Final = 10_000
"""Of one tenant."""


class SweptVectors:
    def __init__(
        self, ledger: Ledger, store: VectorStore, breaker: Breaker, collections: Collections, settling: Settling
    ) -> None:
        self._ledger = ledger
        self._store = store
        self._breaker = breaker
        self._collections = collections
        self._settling = settling

    async def dimensions(self, tenant: str) -> list[int]:
        """Those of the tenant's collections, each once, in order."""
        found: set[int] = set()
        cursor: str | None = None
        for _ in range(COLLECTIONS // POINTS_PER_CALL):
            page = await self._ledger.find(COLLECTION, tenant, "all", equals={}, cursor=cursor, limit=POINTS_PER_CALL)
            found.update(head.value.dimension for head in page.items if head.value is not None)
            cursor = page.cursor
            if cursor is None:
                break
        return sorted(found)

    async def vectors(self, tenant: str, low: str, *, dry_run: bool) -> tuple[Tally, str | None]:
        """A page of vectors from one on; answers where the next one begins."""
        page = await self._ledger.covered(VECTOR, tenant, "living", equals={}, low=low, limit=VECTORS)
        missing = await self._missing(tenant, [found.id for found in page.items])
        if missing and not dry_run:
            await self._settling.settle(tenant, missing)
        tally = Tally(checked=len(page.items), missing=len(missing))
        return tally, None if page.cursor is None else page.items[-1].id + "\x00"

    async def points(
        self, tenant: str, dimension: int, after: str | None, *, dry_run: bool
    ) -> tuple[Tally, str | None]:
        """A page of the points of one dimension, behind a mark of the store's own; answers the next one."""
        page = await self._scroll(dimension, Filter(tenant), after, POINTS)
        named = {point.id: _named(point.id) for point in page.points}
        progress = await self._ledger.heads(PROGRESS, tenant, list({point.vector for point in named.values()}))
        left_over = [name for name, point in named.items() if not _counts(progress.get(point.vector), point)]
        if left_over and not dry_run:
            with self._breaker.guard():
                await self._store.delete(physical(dimension), tenant, left_over)
        return Tally(left_over=len(left_over)), page.next

    async def _missing(self, tenant: str, vectors: Sequence[str]) -> list[str]:
        """Those that the index ought to have, and has not, although nothing was changed meanwhile."""
        indexed = await self._indexed(tenant, vectors)
        by_dimension: dict[int, list[str]] = {}
        dimensions = await self._settling.dimensions_of(tenant, {found.collection for found in indexed.values()})
        for vector, found in indexed.items():
            by_dimension.setdefault(dimensions[found.collection], []).append(vector)
        there: set[VectorPoint] = set()
        for dimension, some in by_dimension.items():
            there |= await self._found(tenant, dimension, some)
        missing = [vector for vector, found in indexed.items() if VectorPoint(vector, found.version) not in there]
        now = await self._indexed(tenant, missing)
        return [vector for vector, found in now.items() if found == indexed[vector]]

    async def _indexed(self, tenant: str, vectors: Sequence[str]) -> dict[str, VectorProgress]:
        """Those that the index has, as far as the ledger knows; what waits for it is the clock's."""
        heads: Mapping[str, Head[VectorProgress]] = {}
        if vectors:
            heads = await self._ledger.heads(PROGRESS, tenant, vectors)
        progress = {vector: head.value for vector, head in heads.items() if head.value is not None}
        return {
            vector: found for vector, found in progress.items() if not found.waiting and found.indexed == found.version
        }

    async def _found(self, tenant: str, dimension: int, vectors: Sequence[str]) -> set[VectorPoint]:
        found: set[VectorPoint] = set()
        after: str | None = None
        while True:
            page = await self._scroll(dimension, Filter(tenant, [OneOf("vector", vectors)]), after, POINTS_PER_CALL)
            found.update(_named(point.id) for point in page.points)
            after = page.next
            if after is None:
                return found

    async def _scroll(self, dimension: int, where: Filter, after: str | None, limit: int) -> Page:
        """Nothing, where there is no collection."""
        name = physical(dimension)
        try:
            with self._breaker.guard():
                return await self._store.scroll(name, where, after=after, limit=limit)
        except NotFound:
            self._collections.forget(name)
            return Page([], None)


def _named(id: str) -> VectorPoint:
    """What has no name of ours is a point of nothing."""
    try:
        return parsed(id)
    except ValueError:
        return VectorPoint("", 0)


def _counts(head: Head[VectorProgress] | None, point: VectorPoint) -> bool:
    progress = value_of(head)
    if progress is None or progress.version != point.version:
        return False
    return progress.waiting or progress.indexed == point.version
