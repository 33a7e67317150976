"""The stages of a draft: embedded, stored, and noted in the ledger."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Final

import structlog

from hivemem_contracts.errors import HiveError
from hivemem_runtime.batches import grouped, slices
from hivemem_runtime.circuit_breaker import retry_after_ms
from hivemem_runtime.ledger.current import current_values
from hivemem_runtime.ledger.entity import AnyEntity, Entity, HeadT
from hivemem_runtime.ledger.port import Decide, Ledger, system_write
from hivemem_vectors.embedders.ports import Embedder
from hivemem_vectors.pipeline.decisions.drafts import ITEMS_PER_GROUP, Draft, Failure, move, reuse, take
from hivemem_vectors.pipeline.decisions.item_states import Deletion, Noted, note_deletions, note_drafts
from hivemem_vectors.pipeline.entities import FOLLOWED, ITEM, is_event, session_of
from hivemem_vectors.stores.ports import ALTERNATIVES_PER_CONDITION, Between, Filter, OneOf, VectorStore

log = structlog.get_logger("hivemem.vectors")

REASON_CHARACTERS: Final = 500
BROKEN_BY: Final = frozenset({"dimension", "model"})
"""A refusal that names one of these fields is a wrong set-up: no item is at fault, and none would succeed alone."""
EMBEDDED_AT_ONCE: Final = 2
"""Groups of drafts: while one is stored, the next one is embedded."""
READ_AT_ONCE: Final = 500
_JITTER: Final = (0.75, 1.25)

Key = tuple[str, str]
"""A tenant and a place."""


async def bisect(drafts: Sequence[Draft], act: Callable[[Sequence[Draft]], Awaitable[None]]) -> None:
    """Do something for many drafts at once, of which some may be refused.

    If `act` cannot be done for now, all of them fail. If it is refused, the draft that the refusal names fails, and the
    others are tried again in halves, so that few tries fail even if no draft is named.
    """
    if not drafts:
        return
    try:
        await act(drafts)
    except HiveError as error:
        others = _worth_another_try(drafts, error)
        failed = [draft for draft in drafts if all(draft is not other for other in others)]
        for draft in failed:
            draft.failure = failure_of(error)
        if failed:
            _log_failure(error, len(failed))
        middle = len(others) // 2
        await bisect(others[:middle], act)
        await bisect(others[middle:], act)


def failure_of(error: HiveError) -> Failure:
    jitter = random.uniform(*_JITTER)  # noqa: S311 nothing is kept secret
    if error.retryable:
        return Failure(error.detail[:REASON_CHARACTERS], False, retry_after_ms(error) * 1_000, jitter)
    return Failure(f"{error.name}: {error.detail}"[:REASON_CHARACTERS], True, jitter=jitter)


def _worth_another_try(drafts: Sequence[Draft], error: HiveError) -> list[Draft]:
    if error.retryable or len(drafts) == 1 or error.context.get("field") in BROKEN_BY:
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


def _log_failure(error: HiveError, items: int) -> None:
    """Log a failure. The text of a refusal may quote what was refused, which has no place in a log."""
    if error.retryable:
        log.warning("items wait for the index", items=items, error=error.name, detail=error.detail)
    else:
        log.warning("items are refused", items=items, error=error.name, field=error.context.get("field"))


class EmbeddingStage:
    """Embeds the chunks of many drafts at once."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._slots = asyncio.Semaphore(EMBEDDED_AT_ONCE)

    async def embed(self, drafts: Sequence[Draft]) -> None:
        """Give each draft its embeddings, from its mirror or the embedder, or a failure."""
        for draft in drafts:
            reuse(draft, self._embedder.model, self._embedder.dimension)
        lacking = [draft for draft in drafts if draft.missing]
        if lacking:
            async with self._slots:
                await bisect(lacking, self._embed)

    async def _embed(self, drafts: Sequence[Draft]) -> None:
        rows = await self._embedder.embed([draft.texts[at] for draft in drafts for at in draft.missing])
        start = 0
        for draft in drafts:
            end = start + len(draft.missing)
            take(draft, rows[start:end])
            start = end


class PointWriter:
    """Writes the points of items to one collection, and removes them."""

    def __init__(self, store: VectorStore, collection: str) -> None:
        self._store = store
        self._collection = collection

    async def put(self, drafts: Sequence[Draft]) -> None:
        """Store the points of all drafts; a draft that is refused gets a failure."""
        await bisect(
            drafts,
            lambda some: self._store.upsert(self._collection, [point for draft in some for point in draft.points]),
        )

    async def remove(self, tenant: str, versions: Sequence[tuple[str, int]]) -> None:
        """Remove the points of these versions, each with its place, and of the versions before them."""
        for version, places in grouped([(version, place) for place, version in versions]).items():
            for some in slices(places, ALTERNATIVES_PER_CONDITION):
                where = Filter(tenant, [OneOf("place", some), Between("version", at_most=version)])
                await self._store.delete_where(self._collection, where)

    async def discard(self, tenant: str, names: Sequence[str]) -> None:
        """Remove points that do not count. If that fails, a sweep finds them."""
        try:
            await self._store.delete(self._collection, tenant, names)
        except HiveError as error:
            log.info("points are left in the store", points=len(names), error=error.name)


class ItemLedger:
    """The items and mirrors of the ledger, read and written many at a time."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    async def values(self, entity: Entity[HeadT, HeadT], keys: Iterable[Key]) -> dict[Key, HeadT]:
        """Return the items or the mirrors of these keys."""
        found: dict[Key, HeadT] = {}
        for tenant, places in grouped(keys).items():
            for some in slices(places, READ_AT_ONCE):
                values = await current_values(self._ledger, entity, tenant, some)
                found.update({(tenant, place): value for place, value in values.items()})
        return found

    async def note(self, drafts: Sequence[Draft], *, anew: bool) -> tuple[dict[str, list[str]], list[Draft]]:
        """Note how far each draft came. Returns the names of useless points by tenant, and the drafts that were not
        noted because their session has moved; they have its new scope now."""
        assert len(drafts) <= ITEMS_PER_GROUP
        by_tenant = grouped([(draft.tenant, draft) for draft in drafts])

        async def note(tenant: str, some: Sequence[Draft]) -> Noted:
            places = [draft.place for draft in some]
            noted: Noted = await self._commit(
                tenant, places, lambda heads, now: note_drafts(heads, some, now, anew=anew)
            )
            for draft in some:
                if draft.place in noted.moved:
                    move(draft, noted.moved[draft.place])
            return noted

        results = await asyncio.gather(*(note(tenant, some) for tenant, some in by_tenant.items()))
        noted = dict(zip(by_tenant, results, strict=True))
        useless = {tenant: one.useless for tenant, one in noted.items() if one.useless}
        return useless, [draft for draft in drafts if draft.place in noted[draft.tenant].moved]

    async def remove(self, tenant: str, deletions: Sequence[Deletion]) -> list[str]:
        """Note deletions; returns the names of further useless points."""
        assert len(deletions) <= ITEMS_PER_GROUP
        places = [one.place for one in deletions]
        useless: list[str] = await self._commit(
            tenant, places, lambda heads, now: note_deletions(heads, deletions, now)
        )
        return useless

    async def _commit(self, tenant: str, places: Sequence[str], decide: Decide) -> Any:
        reads: list[tuple[AnyEntity, str]] = [(ITEM, place) for place in places]
        reads += [(FOLLOWED, id) for id in {session_of(place) for place in places if is_event(place)}]
        return (await self._ledger.commit(system_write(tenant, ITEM, places[0], decide, reads))).answer
