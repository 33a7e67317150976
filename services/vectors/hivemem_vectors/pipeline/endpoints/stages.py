"""The stages of a draft: embedded, stored, and noted in the ledger."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import Final

import structlog

from hivemem_contracts.errors import HiveError, NotFound
from hivemem_runtime.circuit_breaker import Breaker
from hivemem_runtime.ledger.entity import AnyEntity, Entity, HeadT
from hivemem_runtime.ledger.port import Decision, Heads, Ledger, system_write
from hivemem_vectors.embedders.ports import Embedder
from hivemem_vectors.pipeline.decisions.drafts import ITEMS_PER_GROUP, Draft, reuse, take
from hivemem_vectors.pipeline.decisions.item_states import Failure, Gone, Noted, note, remove
from hivemem_vectors.pipeline.decisions.points import FIELDS
from hivemem_vectors.pipeline.endpoints.health import Condition, retry_after_ms
from hivemem_vectors.pipeline.entities import FOLLOWED, ITEM, MIRROR, Item, Mirror, is_event, session_of
from hivemem_vectors.stores.ports import (
    ALTERNATIVES_PER_CONDITION,
    POINTS_PER_CALL,
    Between,
    Filter,
    OneOf,
    Schema,
    VectorStore,
)
from hivemem_vectors.upkeep.endpoints.collections import Collections

log = structlog.get_logger("hivemem.vectors")

REASON_CHARACTERS: Final = 500
OF_ALL: Final = frozenset({"dimension", "model"})
"""What is refused for these is no item's fault, and none would have more luck alone."""


async def together(drafts: Sequence[Draft], act: Callable[[Sequence[Draft]], Awaitable[None]]) -> None:
    """Where `act` cannot be done for now, all of them fail; where it is refused, those that it is refused for. The
    others are tried again without the one that was named, half of them at a time: so few tries go in vain, even where
    it is not said who is at fault."""
    if not drafts:
        return
    try:
        await act(drafts)
    except HiveError as error:
        others = _others(drafts, error)
        failed = [draft for draft in drafts if all(draft is not other for other in others)]
        for draft in failed:
            draft.failure = failure_of(error)
        if failed:
            _tell(error, len(failed))
        middle = len(others) // 2
        await together(others[:middle], act)
        await together(others[middle:], act)


def failure_of(error: HiveError) -> Failure:
    if error.retryable:
        return Failure(error.detail[:REASON_CHARACTERS], refused=False, wait=retry_after_ms(error) * 1_000)
    return Failure(f"{error.name}: {error.detail}"[:REASON_CHARACTERS], refused=True)


def _others(drafts: Sequence[Draft], error: HiveError) -> list[Draft]:
    """Those that are worth another try."""
    if error.retryable or len(drafts) == 1 or error.context.get("field") in OF_ALL:
        return []
    index = error.context.get("index")
    if not isinstance(index, int):
        return list(drafts)
    reached = 0
    for place, draft in enumerate(drafts):
        reached += len(draft.missing)
        if index < reached:
            return [*drafts[:place], *drafts[place + 1 :]]
    return list(drafts)


def _tell(error: HiveError, items: int) -> None:
    """What a refusal says may be of what was refused, which is nobody's business here."""
    if error.retryable:
        log.warning("items wait for the index", items=items, error=error.name, detail=error.detail)
    else:
        log.warning("items are refused", items=items, error=error.name, field=error.context.get("field"))


AT_ONCE: Final = 2
"""Groups of items: while one is stored, the next one is embedded."""


class Embedding:
    def __init__(self, embedder: Embedder, clock: Callable[[], float]) -> None:
        self._embedder = embedder
        self._slots = asyncio.Semaphore(AT_ONCE)
        self.condition = Condition(clock)

    @property
    def model(self) -> str:
        return self._embedder.model

    @property
    def dimension(self) -> int:
        return self._embedder.dimension

    def reuse(self, drafts: Sequence[Draft]) -> list[Draft]:
        """Give them the embeddings that the ledger has; returns those that need more."""
        for draft in drafts:
            reuse(draft, self.model, self.dimension)
        return [draft for draft in drafts if draft.missing]

    async def embed(self, drafts: Sequence[Draft]) -> None:
        """What they lack. Each has all of its embeddings then, or a failure."""
        if drafts:
            async with self._slots:
                await together(drafts, self._embed)

    async def _embed(self, drafts: Sequence[Draft]) -> None:
        texts = [draft.texts[at] for draft in drafts for at in draft.missing]
        try:
            rows = await self._embedder.embed(texts)
        except HiveError as error:
            if error.retryable or error.context.get("field") in OF_ALL:
                self.condition.failed(error)
            raise
        self.condition.well()
        start = 0
        for draft in drafts:
            end = start + len(draft.missing)
            take(draft, rows[start:end])
            start = end


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


READ_AT_ONCE: Final = 500
_SPREAD: Final = (0.75, 1.25)

Key = tuple[str, str]
"""A tenant and a place."""

Useless = dict[str, list[str]]
"""By tenant the names of points that nobody counts any more."""


class Noting:
    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    async def items(self, keys: Iterable[Key]) -> dict[Key, Item]:
        return await self._values(ITEM, keys)

    async def mirrors(self, keys: Iterable[Key]) -> dict[Key, Mirror]:
        return await self._values(MIRROR, keys)

    async def note(self, drafts: Sequence[Draft], *, anew: bool) -> Useless:
        """How far each of them came."""
        assert len(drafts) <= ITEMS_PER_GROUP
        by_tenant: dict[str, list[Draft]] = {}
        for draft in drafts:
            by_tenant.setdefault(draft.tenant, []).append(draft)
        noted = await asyncio.gather(*(self._note(tenant, some, anew) for tenant, some in by_tenant.items()))
        return {tenant: one.useless for tenant, one in zip(by_tenant, noted, strict=True) if one.useless}

    async def remove(self, tenant: str, gone: Sequence[Gone]) -> list[str]:
        """That their points are removed, or are not yet; returns the names of further ones."""
        assert len(gone) <= ITEMS_PER_GROUP
        spread = [one._replace(spread=_spread()) for one in gone]
        noted = await self._commit(tenant, [one.place for one in gone], lambda heads, now: remove(heads, spread, now))
        return noted.useless

    async def _note(self, tenant: str, drafts: Sequence[Draft], anew: bool) -> Noted:
        outcomes = [draft.outcome(_spread() if draft.failure else 1.0, anew=anew) for draft in drafts]
        places = [draft.place for draft in drafts]
        return await self._commit(tenant, places, lambda heads, now: note(heads, outcomes, now))

    async def _commit(self, tenant: str, places: Sequence[str], decide: Callable[[Heads, int], Noted]) -> Noted:
        noted = Noted()

        def decide_all(heads: Heads, now: int) -> Decision:
            nonlocal noted
            noted = decide(heads, now)
            return noted.appends

        reads: list[tuple[AnyEntity, str]] = [(ITEM, place) for place in places]
        reads += [(FOLLOWED, id) for id in {session_of(place) for place in places if is_event(place)}]
        await self._ledger.commit(system_write(tenant, ITEM, places[0], decide_all, reads))
        return noted

    async def _values(self, entity: Entity[HeadT, HeadT], keys: Iterable[Key]) -> dict[Key, HeadT]:
        """Of those that there are."""
        by_tenant: dict[str, list[str]] = {}
        for tenant, place in keys:
            by_tenant.setdefault(tenant, []).append(place)
        found: dict[Key, HeadT] = {}
        for tenant, places in by_tenant.items():
            for start in range(0, len(places), READ_AT_ONCE):
                heads = await self._ledger.heads(entity, tenant, places[start : start + READ_AT_ONCE])
                found.update({(tenant, id): head.value for id, head in heads.items() if head.value is not None})
        return found


def _spread() -> float:
    """So that not everything that waits is tried at the same moment."""
    return random.uniform(*_SPREAD)  # noqa: S311 nothing is kept secret
