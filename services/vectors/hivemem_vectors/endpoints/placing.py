"""The points of items, put into the vector store and taken out of it."""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial

import structlog

from hivemem_contracts.errors import HiveError, NotFound
from hivemem_vectors.adapters.breaker import Breaker
from hivemem_vectors.decisions.drafting import Draft
from hivemem_vectors.decisions.points import FIELDS
from hivemem_vectors.endpoints.collections import Collections
from hivemem_vectors.endpoints.health import Condition
from hivemem_vectors.endpoints.together import OF_ALL, together
from hivemem_vectors.ports import (
    ALTERNATIVES_PER_CONDITION,
    POINTS_PER_CALL,
    Between,
    Filter,
    OneOf,
    Schema,
    VectorStore,
)

log = structlog.get_logger("hivemem.vectors")

Version = tuple[str, int]
"""A place and a version."""


class Placing:
    """In one collection, which is made where it is missing. `breaker` is that of the store."""

    def __init__(
        self,
        store: VectorStore,
        breaker: Breaker,
        collections: Collections,
        collection: str,
        *,
        model: str,
        dimension: int,
        clock: Callable[[], float],
    ) -> None:
        self._store = store
        self._breaker = breaker
        self._collections = collections
        self._collection = collection
        self._schema = Schema(dimension, model, FIELDS)
        self.condition = Condition(clock)

    async def prepare(self) -> None:
        """Make the collection where it is missing. Raises what the store does."""
        await self._do(_nothing)

    async def check(self) -> None:
        """Find out whether the store can be used; its condition says so then."""
        try:
            await self._do(self._store.check)
        except HiveError as error:
            log.debug("the vector store cannot be used", error=error.name)

    async def put(self, drafts: Sequence[Draft]) -> None:
        """The points of all of them, or a failure."""
        await together(drafts, self._put)

    async def remove(self, tenant: str, versions: Sequence[Version]) -> None:
        """All points of these versions and of those before them. Raises what the store does."""
        by_version: dict[int, list[str]] = {}
        for place, version in versions:
            by_version.setdefault(version, []).append(place)
        for version, places in by_version.items():
            for start in range(0, len(places), ALTERNATIVES_PER_CONDITION):
                some = places[start : start + ALTERNATIVES_PER_CONDITION]
                where = Filter(tenant, [OneOf("place", some), Between("version", at_most=version)])
                await self._do(partial(self._store.delete_where, self._collection, where))

    async def discard(self, tenant: str, names: Sequence[str]) -> None:
        """Points that nobody counts any more: what cannot be removed now is found by a sweep."""
        try:
            for start in range(0, len(names), POINTS_PER_CALL):
                some = names[start : start + POINTS_PER_CALL]
                await self._do(partial(self._store.delete, self._collection, tenant, some))
        except HiveError as error:
            log.info("points are left in the store", points=len(names), error=error.name)

    async def _put(self, drafts: Sequence[Draft]) -> None:
        points = [point for draft in drafts for point in draft.points]
        for start in range(0, len(points), POINTS_PER_CALL):
            some = points[start : start + POINTS_PER_CALL]
            await self._do(partial(self._store.upsert, self._collection, some))

    async def _do(self, act: Callable[[], Awaitable[None]]) -> None:
        try:
            with self._breaker.guard():
                await self._collections.ensure(self._collection, self._schema)
                try:
                    await act()
                except NotFound:
                    # It was lost, and all that was in it, which is somebody else's work.
                    self._collections.forget(self._collection)
                    await self._collections.ensure(self._collection, self._schema)
                    await act()
        except HiveError as error:
            if error.retryable or error.context.get("field") in OF_ALL:
                self.condition.failed(error)
            raise
        self.condition.well()


async def _nothing() -> None:
    """To ask for the collection alone."""
