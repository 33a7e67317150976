"""The one guard around any vector store: circuit breaker, time limit, and collections that were lost."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Final, Protocol, TypeVar

from hivemem_contracts.errors import HiveError, NotFound, Unavailable
from hivemem_runtime.batches import slices
from hivemem_runtime.circuit_breaker import CircuitBreaker
from hivemem_vectors.stores.arguments import CheckedStore
from hivemem_vectors.stores.ports import (
    POINTS_PER_CALL,
    ByWords,
    Filter,
    Hit,
    Nearest,
    Point,
    PointPage,
    Schema,
    StoredPoint,
    VectorStore,
)

SEARCH_SECONDS: Final = 3.0
"""The time limit of a search and a count: the ledger answers sooner than a slower index."""
RETRY_AFTER_MS: Final = 1_000

ResultT = TypeVar("ResultT")


class CollectionLog(Protocol):
    """Remembers which collections were made, and which of them were lost after that."""

    async def was_made(self, collection: str) -> bool: ...

    async def note(self, collection: str, *, lost: bool) -> None:
        """Remember the collection as made; as `lost` until every tenant knows that its points are gone."""
        ...

    def made_again(self, collection: str) -> None:
        """Wake whoever fills lost collections."""
        ...

    async def is_incomplete(self, tenant: str, collection: str) -> bool:
        """Return whether the collection was lost, and may still lack points of the tenant."""
        ...


class GuardedStore(CheckedStore):
    """A store that fails fast while it is down, and creates its collections when they are needed.

    A write creates a missing collection and is repeated. A search in a lost or incomplete collection is `Unavailable`,
    for its answer could lack anything. A scroll of a missing collection finds nothing.
    `prepare` is the guarded way to create a collection; `ensure_collection` and `schema` pass as they are.
    """

    def __init__(
        self,
        store: VectorStore,
        breaker: CircuitBreaker,
        log: CollectionLog,
        schema_of: Callable[[str], Schema],
    ) -> None:
        """`schema_of` returns the schema of a collection by its name."""
        super().__init__(store)
        self.breaker = breaker
        self._log = log
        self._schema_of = schema_of
        self._known: set[str] = set()
        self._ensuring = asyncio.Lock()

    async def check(self) -> None:
        with self.breaker.guard():
            await super().check()

    async def prepare(self, collection: str) -> None:
        """Create the collection if it is missing. Raises `InvalidRequest` if it was made for another model."""
        with self.breaker.guard():
            await self._ensure(collection)

    async def drop_collection(self, collection: str) -> None:
        self._known.discard(collection)
        with self.breaker.guard():
            await super().drop_collection(collection)

    async def upsert(self, collection: str, points: Sequence[Point]) -> None:
        """Store any number of points."""
        for some in slices(points, POINTS_PER_CALL):
            await self._write(collection, partial(super().upsert, collection, some))

    async def delete(self, collection: str, tenant: str, ids: Sequence[str]) -> None:
        """Remove any number of points."""
        for some in slices(ids, POINTS_PER_CALL):
            await self._write(collection, partial(super().delete, collection, tenant, some))

    async def delete_where(self, collection: str, where: Filter) -> None:
        await self._write(collection, partial(super().delete_where, collection, where))

    async def nearest(self, collection: str, query: Nearest) -> list[Hit]:
        return await self._search(collection, query.where, partial(super().nearest, collection, query))

    async def by_words(self, collection: str, query: ByWords) -> list[Hit]:
        return await self._search(collection, query.where, partial(super().by_words, collection, query))

    async def best_by_word(self, collection: str, where: Filter, terms: Sequence[int]) -> list[float]:
        return await self._search(collection, where, partial(super().best_by_word, collection, where, terms))

    async def scroll(
        self, collection: str, where: Filter | None = None, *, after: str | None = None, limit: int = POINTS_PER_CALL
    ) -> PointPage:
        try:
            with self.breaker.guard():
                return await super().scroll(collection, where, after=after, limit=limit)
        except NotFound:
            self._known.discard(collection)
            return PointPage([], None)

    async def scroll_all(self, collection: str, where: Filter) -> AsyncGenerator[list[StoredPoint]]:
        """Yield all pages of a scroll."""
        page = await self.scroll(collection, where)
        yield page.points
        while page.next is not None:
            page = await self.scroll(collection, where, after=page.next)
            yield page.points

    async def count(self, collection: str, where: Filter | None = None) -> int:
        return await self._read(collection, partial(super().count, collection, where))

    async def _write(self, collection: str, act: Callable[[], Awaitable[None]]) -> None:
        with self.breaker.guard():
            await self._ensure(collection)
            try:
                await act()
            except NotFound:
                self._known.discard(collection)
                await self._ensure(collection)
                await act()

    async def _search(self, collection: str, where: Filter, find: Callable[[], Awaitable[ResultT]]) -> ResultT:
        if await self._log.is_incomplete(where.tenant, collection):
            raise _lost()
        return await self._read(collection, find)

    async def _read(self, collection: str, read: Callable[[], Awaitable[ResultT]]) -> ResultT:
        try:
            with self.breaker.guard():
                return await _in_time(read())
        except NotFound as error:
            self._known.discard(collection)
            with suppress(HiveError):
                await _in_time(self.prepare(collection))
            raise _lost() from error

    async def _ensure(self, collection: str) -> None:
        if collection in self._known:
            return
        async with self._ensuring:
            if collection not in self._known:
                await self._make(collection)

    async def _make(self, collection: str) -> None:
        was_made = await self._log.was_made(collection)
        is_lost = was_made and not await self._exists(collection)
        if is_lost:
            # This comes first, so that a kill in the middle does not hide the loss.
            await self._log.note(collection, lost=True)
        await self.ensure_collection(collection, self._schema_of(collection))
        if not was_made:
            await self._log.note(collection, lost=False)
        self._known.add(collection)
        if is_lost:
            self._log.made_again(collection)

    async def _exists(self, collection: str) -> bool:
        try:
            await self.schema(collection)
        except NotFound:
            return False
        return True


async def _in_time(call: Awaitable[ResultT]) -> ResultT:
    try:
        async with asyncio.timeout(SEARCH_SECONDS):
            return await call
    except TimeoutError as error:
        raise Unavailable("the vector store takes too long", retry_after_ms=RETRY_AFTER_MS) from error


def _lost() -> Unavailable:
    return Unavailable("it was lost, and is filled again", retry_after_ms=RETRY_AFTER_MS)
