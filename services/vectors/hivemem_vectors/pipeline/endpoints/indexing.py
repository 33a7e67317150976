"""The indexer: embeds versions of items, stores their points, and notes in the ledger how far each one came."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing, suppress
from functools import partial
from typing import Final

import structlog

from hivemem_contracts.errors import HiveError, Unavailable
from hivemem_runtime.batches import grouped, slices
from hivemem_runtime.circuit_breaker import CircuitBreaker, Health
from hivemem_runtime.ledger.port import Ledger
from hivemem_runtime.turns import offloaded
from hivemem_vectors.embedders.ports import Embedder
from hivemem_vectors.pipeline.decisions.changes import ItemVersion, version_of_memory
from hivemem_vectors.pipeline.decisions.drafts import (
    ITEMS_PER_GROUP,
    Chunker,
    Draft,
    drafts_of,
    finish,
    groups,
    is_unlike,
    lacks_embeddings,
    mirrored,
    parts,
)
from hivemem_vectors.pipeline.decisions.item_states import Deletion, is_news, is_unclean
from hivemem_vectors.pipeline.endpoints.peers import AGENT, MemoryService
from hivemem_vectors.pipeline.endpoints.restoring import PointRestorer
from hivemem_vectors.pipeline.endpoints.stages import EmbeddingStage, ItemLedger, Key, PointWriter, failure_of
from hivemem_vectors.pipeline.entities import ITEM, MIRROR, SYNCED, Item, is_event, named
from hivemem_vectors.stores.guarded import GuardedStore

log = structlog.get_logger("hivemem.vectors")

GROUPS_AT_ONCE: Final = 4
"""The most groups of one call: while one is stored, the next one is embedded."""

STORED_AT_ONCE: Final = 4
RETRY_AFTER_MS: Final = 1_000


class Indexer:
    """Indexes items of any tenants. Any number of indexers may share one ledger and one store, because versions fence
    whatever comes late.

    Raises only errors of the ledger, and of reading items from the memory service.
    """

    def __init__(
        self,
        ledger: Ledger,
        store: GuardedStore,
        embedder: Embedder,
        embedder_breaker: CircuitBreaker,
        chunker: Chunker,
        memories: MemoryService,
        *,
        collection: str,
    ) -> None:
        """`collection` holds the points of all items. `embedder_breaker` guards the embedder."""
        self._store = store
        self._collection = collection
        self._model = embedder.model
        self._embedder_breaker = embedder_breaker
        self._chunker = chunker
        self._memories = memories
        self._ledger = ItemLedger(ledger)
        self._embedding = EmbeddingStage(embedder)
        self._points = PointWriter(store, collection)
        self._restorer = PointRestorer(ledger, store, embedder, collection)
        self._storing = asyncio.Semaphore(STORED_AT_ONCE)

    async def prepare(self) -> None:
        """Create the collection if it is missing.

        Raises `InvalidRequest` if it was made for another model or dimension, and `Unavailable` while the store is
        down; the first item creates it then."""
        await self._store.prepare(self._collection)

    async def check_store(self) -> None:
        """Call the store if its last call failed, so that its health is up to date."""
        if not self.store_health().ready:
            with suppress(HiveError):
                await self.prepare()
                await self._store.check()

    def store_health(self) -> Health:
        return self._store.breaker.health

    def embedder_health(self) -> Health:
        return self._embedder_breaker.health

    async def take_up(self, versions: Iterable[ItemVersion]) -> None:
        """Index or delete versions. When this returns, each of them is in the index, or noted as waiting or refused."""
        newest, earlier = _newest(versions)
        if earlier:
            await self.take_up(earlier)
        items = await self._ledger.values(ITEM, newest)
        news = [one for key, one in newest.items() if is_news(items.get(key), one)]
        read, failure = await self._read([one for one in news if _is_unread(one)])
        await self._remove([_gone(one, items.get((one.tenant, one.place))) for one in news if one.gone])
        living = [one for one in news if not one.gone and not _is_unread(one)]
        await self._settle_all(self._drafted([*living, *read], items), anew=False)
        if failure is not None:
            # The others need not wait for it.
            raise failure

    async def renew(self, versions: Sequence[ItemVersion]) -> None:
        """Index versions that are not in the index, or there with another text or other fields. Unchanged texts are not
        embedded again. Raises `Unavailable` if one of them stays as it was for now."""
        items = await self._ledger.values(ITEM, [(one.tenant, one.place) for one in versions])
        async for drafts in self._drafted(versions, items):
            unlike = [draft for draft in drafts if is_unlike(draft)]
            if unlike:
                await self._settle(unlike, anew=True)
            for draft in unlike:
                was_there = draft.item is not None and not draft.item.gone and draft.item.state == SYNCED
                if was_there and draft.failure is not None and not draft.failure.refused:
                    raise Unavailable(f"an item stays as it was: {draft.failure.reason}", retry_after_ms=RETRY_AFTER_MS)

    async def again(self, tenant: str, places: Sequence[str]) -> None:
        """Index items again, whatever the ledger says of them: memories as they are now, read by request, and events
        from their mirrors. Deleted memories are ignored, because the feed tells of their deletion."""
        items = await self._ledger.values(ITEM, [(tenant, place) for place in places])
        names = [named(place) for place in places if not is_event(place)]
        found = await self._memories.get_many(tenant, AGENT, names) if names else {}
        memories = [version_of_memory(tenant, memory) for memory in found.values()]
        await self._settle_all(self._drafted(memories, items), anew=True)
        events = {key: item for key, item in items.items() if is_event(key[1]) and not item.gone}
        await self._settle_all(self._mirrored(events), anew=True)

    async def restore(self, tenant: str, versions: Mapping[str, int]) -> list[str]:
        """Restore the points of items from their mirrors, given the version of each place. Returns the places whose
        mirrors do not fit."""
        return await self._restorer.restore(tenant, versions)

    async def retry(self, tenant: str, places: Sequence[str]) -> int:
        """Index waiting items from their mirrors, and remove points that deletions left. Returns how many items were
        due."""
        if self._store.breaker.is_paused:
            return 0
        items = await self._ledger.values(ITEM, [(tenant, place) for place in places])
        unclean = {key: item for key, item in items.items() if is_unclean(item)}
        await self._remove([(tenant, Deletion(place, item.heard)) for (_, place), item in unclean.items()])
        waiting = {key: item for key, item in items.items() if not item.gone and item.state != SYNCED}
        tried = await self._settle_all(self._mirrored(waiting, skip=self._must_wait), anew=False)
        return len(unclean) + tried

    def _must_wait(self, draft: Draft) -> bool:
        return self._embedder_breaker.is_paused and lacks_embeddings(draft, self._model)

    async def _read(self, told: Sequence[ItemVersion]) -> tuple[list[ItemVersion], HiveError | None]:
        """Read versions that are too large for the feed as they are now. Returns the error that kept some of them back.
        Deleted memories are left out, because the feed tells of their deletion."""
        read: list[ItemVersion] = []
        failure: HiveError | None = None
        for tenant, names in grouped([(one.tenant, named(one.place)) for one in told]).items():
            try:
                found = await self._memories.get_many(tenant, AGENT, names)
            except HiveError as error:
                failure = error
            else:
                read += [version_of_memory(tenant, memory) for memory in found.values()]
        return read, failure

    async def _drafted(self, told: Sequence[ItemVersion], items: Mapping[Key, Item]) -> AsyncGenerator[list[Draft]]:
        """Yield groups of drafts with the items and mirrors that the ledger had before."""
        for part in parts(told):
            characters = sum([len(one.text or "") for one in part])
            drafts = await offloaded(characters, partial(drafts_of, part, self._chunker))
            for group in groups(drafts):
                for draft in group:
                    draft.item = items.get((draft.tenant, draft.place))
                known = [(draft.tenant, draft.place) for draft in group if draft.item is not None]
                mirrors = await self._ledger.values(MIRROR, known)
                for draft in group:
                    draft.before = mirrors.get((draft.tenant, draft.place))
                yield group

    async def _mirrored(
        self, items: Mapping[Key, Item], *, skip: Callable[[Draft], bool] = lambda _: False
    ) -> AsyncGenerator[list[Draft]]:
        """Yield groups of drafts that are made of mirrors."""
        for some in slices(list(items), ITEMS_PER_GROUP):
            mirrors = await self._ledger.values(MIRROR, some)
            drafts = [
                mirrored(*key, items[key], mirrors[key])
                for key in some
                if key in mirrors and mirrors[key].version == items[key].heard
            ]
            for group in groups([draft for draft in drafts if not skip(draft)]):
                yield group

    async def _settle_all(self, drafts: AsyncGenerator[list[Draft]], *, anew: bool) -> int:
        """Index groups of drafts, a few at once. Returns the number of items."""
        slots = asyncio.Semaphore(GROUPS_AT_ONCE)
        count = 0

        async def settle(group: list[Draft]) -> None:
            try:
                await self._settle(group, anew=anew)
            finally:
                slots.release()

        try:
            async with aclosing(drafts), asyncio.TaskGroup() as tasks:
                async for group in drafts:
                    count += len(group)
                    await slots.acquire()
                    tasks.create_task(settle(group))
        except BaseExceptionGroup as failures:
            # The first one stopped the others: it is the reason, and callers know it by its type.
            raise failures.exceptions[0] from None
        return count

    async def _settle(self, drafts: list[Draft], *, anew: bool) -> None:
        """Take drafts through all stages, and note the result of each; once more if their session has moved."""
        await self._embedding.embed(drafts)
        async with self._storing:
            await self._clean([draft for draft in drafts if is_unclean(draft.item)])
            noted = drafts
            while drafts:
                sound = [draft for draft in drafts if draft.failure is None]
                characters = sum([len(text) for draft in sound for text in draft.texts])
                await offloaded(characters, partial(finish, sound, self._model))
                await self._points.put(sound)
                useless, drafts = await self._ledger.note(drafts, anew=anew)
                for tenant, names in useless.items():
                    await self._points.discard(tenant, names)
            await self._join([draft for draft in noted if draft.failure is None and is_event(draft.place)])

    async def _join(self, events: Sequence[Draft]) -> None:
        """Have events and their neighbours lend one another words. If that fails, a sweep does it."""
        by_tenant = grouped([(draft.tenant, (draft.place, draft.version)) for draft in events])
        for tenant, some in by_tenant.items():
            try:
                await self._restorer.join(tenant, dict(some))
            except HiveError as error:
                log.info("events stand alone in the index", events=len(some), error=error.name)

    async def _clean(self, drafts: Sequence[Draft]) -> None:
        """Remove points of deleted items before they are indexed again."""
        for draft in drafts:
            try:
                await self._points.remove(draft.tenant, [(draft.place, draft.version - 1)])
            except HiveError as error:
                draft.failure = failure_of(error)

    async def _remove(self, gone: Sequence[tuple[str, Deletion]]) -> None:
        removals = [
            self._remove_some(tenant, some)
            for tenant, deletions in grouped(gone).items()
            for some in slices(deletions, ITEMS_PER_GROUP)
        ]
        await asyncio.gather(*removals)

    async def _remove_some(self, tenant: str, gone: Sequence[Deletion]) -> None:
        async with self._storing:
            try:
                await self._points.remove(tenant, [(one.place, one.version) for one in gone])
            except HiveError as error:
                gone = [one._replace(failure=failure_of(error)) for one in gone]
            useless = await self._ledger.remove(tenant, gone)
            await self._points.discard(tenant, useless)


def _newest(told: Iterable[ItemVersion]) -> tuple[dict[Key, ItemVersion], list[ItemVersion]]:
    """Return the newest version of each item, and older ones that are erasures, which are counted."""
    newest: dict[Key, ItemVersion] = {}
    earlier: list[ItemVersion] = []
    for one in told:
        key = one.tenant, one.place
        known = newest.setdefault(key, one)
        if known is one:
            continue
        older, newer = sorted((known, one), key=lambda each: (each.version, each.gone))
        newest[key] = newer
        if older.receipt is not None and older.version < newer.version:
            earlier.append(older)
    return newest, earlier


def _is_unread(told: ItemVersion) -> bool:
    return told.text is None and not told.gone


def _gone(told: ItemVersion, item: Item | None) -> tuple[str, Deletion]:
    return told.tenant, Deletion(told.place, told.version, told.receipt, None if item is None else item.indexed)
