"""Items into the index: what was told of them is embedded, stored, and noted in the ledger with how far it got."""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from functools import partial
from typing import Final

from hivemem_contracts.errors import HiveError
from hivemem_runtime.circuit_breaker import Breaker
from hivemem_runtime.ledger.port import Ledger
from hivemem_runtime.turns import offloaded
from hivemem_vectors.embedders.ports import Embedder
from hivemem_vectors.pipeline.decisions.changes import Told, told_of_memory
from hivemem_vectors.pipeline.decisions.drafts import (
    ITEMS_PER_GROUP,
    Chunker,
    Draft,
    drafted,
    finish,
    groups,
    lacks_embeddings,
    mirrored,
    parts,
)
from hivemem_vectors.pipeline.decisions.item_states import Failure, Gone, is_news, is_unclean
from hivemem_vectors.pipeline.endpoints.health import Health
from hivemem_vectors.pipeline.endpoints.memory_service import AGENT, Memories
from hivemem_vectors.pipeline.endpoints.stages import Embedding, Key, Noting, Placing, failure_of
from hivemem_vectors.pipeline.entities import SYNCED, Item, is_event, named
from hivemem_vectors.stores.ports import VectorStore
from hivemem_vectors.upkeep.endpoints.collections import Collections

GROUPS_AT_ONCE: Final = 4
"""Of one call: while one is stored, the next one is embedded."""

STORED_AT_ONCE: Final = 4


class Indexer:
    """Any number may be at work on one ledger and one store: what is late is fenced by its version.

    Raises only what keeps it from the ledger, or from reading what it was told of.
    """

    def __init__(
        self,
        ledger: Ledger,
        store: VectorStore,
        breaker: Breaker,
        collections: Collections,
        embedder: Embedder,
        chunker: Chunker,
        memories: Memories,
        *,
        collection: str,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`breaker` is that of the store; `collection` the name of the one that all items are in. `clock` counts the
        seconds for which what is down is left alone."""
        self._chunker = chunker
        self._memories = memories
        self._noting = Noting(ledger)
        self._embedding = Embedding(embedder, clock)
        self._placing = Placing(
            store,
            breaker,
            collections,
            collection,
            model=embedder.model,
            dimension=embedder.dimension,
            clock=clock,
        )
        self._storing = asyncio.Semaphore(STORED_AT_ONCE)

    async def prepare(self) -> None:
        """Make the collection where it is missing. Raises `InvalidRequest` where it is made for another model or
        dimension, and `Unavailable` where the store is down: it is asked again then with the first item."""
        await self._placing.prepare()

    async def check_store(self) -> None:
        """Ask the store how it is, if it was not well."""
        if not self._placing.condition.health.ready:
            await self._placing.check()

    def store_health(self) -> Health:
        return self._placing.condition.health

    def embedder_health(self) -> Health:
        return self._embedding.condition.health

    async def index(self, tenant: str, told: Sequence[Told]) -> None:
        """All of it is in the index when this returns, or noted as waiting or refused."""
        assert all(one.tenant == tenant for one in told)
        await self.take_up(told)

    async def take_up(self, told: Iterable[Told]) -> None:
        """The same, for items of any tenants."""
        newest, earlier = _newest(told)
        if earlier:
            await self.take_up(earlier)
        items = await self._noting.items(newest)
        news = [one for key, one in newest.items() if is_news(items.get(key), one)]
        read, failure = await self._read([one for one in news if _is_unread(one)])
        await self._remove([_gone(one, items.get((one.tenant, one.place))) for one in news if one.gone])
        living = [one for one in news if not one.gone and not _is_unread(one)]
        await self._settle_all(self._drafted([*living, *read], items), anew=False)
        if failure is not None:
            # The others need not wait for it.
            raise failure

    async def again(self, tenant: str, places: Sequence[str]) -> None:
        """Index items anew, whatever the ledger says of them: memories as they are now, read by request; events as
        they are mirrored. What does not live any more is left alone: its deletion is told."""
        items = await self._noting.items([(tenant, place) for place in places])
        names = [named(place) for place in places if not is_event(place)]
        found = await self._memories.get_many(tenant, AGENT, names) if names else {}
        memories = [told_of_memory(tenant, memory) for memory in found.values()]
        await self._settle_all(self._drafted(memories, items), anew=True)
        events = {key: item for key, item in items.items() if is_event(key[1]) and not item.gone}
        await self._settle_all(self._mirrored(events), anew=True)

    async def retry(self, tenant: str, places: Sequence[str]) -> int:
        """Index what waits, as it is mirrored, and remove what is left of what was deleted. Answers for how many
        items it was not too early."""
        if self._placing.condition.is_paused:
            return 0
        items = await self._noting.items([(tenant, place) for place in places])
        unclean = {key: item for key, item in items.items() if is_unclean(item)}
        await self._remove([(tenant, Gone(place, item.heard)) for (_, place), item in unclean.items()])
        waiting = {key: item for key, item in items.items() if not item.gone and item.state != SYNCED}
        tried = await self._settle_all(self._mirrored(waiting, skip=self._must_wait), anew=False)
        return len(unclean) + tried

    def _must_wait(self, draft: Draft) -> bool:
        return self._embedding.condition.is_paused and lacks_embeddings(draft, self._embedding.model)

    async def _read(self, told: Sequence[Told]) -> tuple[list[Told], HiveError | None]:
        """What was left out of their changes, as it is now; or what kept us from reading all of it. What does not live
        any more is left out: its deletion is told."""
        by_tenant: dict[str, list[tuple[str, str]]] = {}
        for one in told:
            by_tenant.setdefault(one.tenant, []).append(named(one.place))
        read: list[Told] = []
        failure: HiveError | None = None
        for tenant, names in by_tenant.items():
            try:
                found = await self._memories.get_many(tenant, AGENT, names)
            except HiveError as error:
                failure = error
            else:
                read += [told_of_memory(tenant, memory) for memory in found.values()]
        return read, failure

    async def _drafted(self, told: Sequence[Told], items: Mapping[Key, Item]) -> AsyncGenerator[list[Draft]]:
        """In groups, with what the ledger had of each before."""
        for part in parts(told):
            characters = sum([len(one.text or "") for one in part])
            drafts = await offloaded(characters, partial(_drafts, part, self._chunker))
            for group in groups(drafts):
                for draft in group:
                    draft.item = items.get((draft.tenant, draft.place))
                known = [(draft.tenant, draft.place) for draft in group if draft.item is not None]
                mirrors = await self._noting.mirrors(known)
                for draft in group:
                    draft.before = mirrors.get((draft.tenant, draft.place))
                yield group

    async def _mirrored(
        self, items: Mapping[Key, Item], *, skip: Callable[[Draft], bool] = lambda _: False
    ) -> AsyncGenerator[list[Draft]]:
        """In groups, each made of what the ledger has of it."""
        keys = list(items)
        for start in range(0, len(keys), ITEMS_PER_GROUP):
            some = keys[start : start + ITEMS_PER_GROUP]
            mirrors = await self._noting.mirrors(some)
            drafts = [
                mirrored(*key, items[key], mirrors[key])
                for key in some
                if key in mirrors and mirrors[key].version == items[key].heard
            ]
            for group in groups([draft for draft in drafts if not skip(draft)]):
                yield group

    async def _settle_all(self, drafts: AsyncGenerator[list[Draft]], *, anew: bool) -> int:
        """Group by group, a few side by side; answers how many items there were."""
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
        """As far into the index as they come, and noted how far that is."""
        await self._embedding.embed(self._embedding.reuse(drafts))
        async with self._storing:
            await self._clean([draft for draft in drafts if is_unclean(draft.item)])
            sound = [draft for draft in drafts if draft.failure is None]
            characters = sum([len(text) for draft in sound for text in draft.texts])
            await offloaded(characters, partial(_finish, sound, self._embedding.model))
            await self._placing.put(sound)
            useless = await self._noting.note(drafts, anew=anew)
            for tenant, names in useless.items():
                await self._placing.discard(tenant, names)

    async def _clean(self, drafts: Sequence[Draft]) -> None:
        """What is left of former lives goes before a new one comes."""
        for draft in drafts:
            assert draft.mirror.version is not None, "it is of a version"
            try:
                await self._placing.remove(draft.tenant, [(draft.place, draft.mirror.version - 1)])
            except HiveError as error:
                draft.failure = failure_of(error)

    async def _remove(self, gone: Sequence[tuple[str, Gone]]) -> None:
        by_tenant: dict[str, list[Gone]] = {}
        for tenant, one in gone:
            by_tenant.setdefault(tenant, []).append(one)
        slices = [
            (tenant, some[start : start + ITEMS_PER_GROUP])
            for tenant, some in by_tenant.items()
            for start in range(0, len(some), ITEMS_PER_GROUP)
        ]
        await asyncio.gather(*(self._remove_some(tenant, some) for tenant, some in slices))

    async def _remove_some(self, tenant: str, gone: Sequence[Gone]) -> None:
        async with self._storing:
            failure: Failure | None = None
            try:
                await self._placing.remove(tenant, [(one.place, one.version) for one in gone])
            except HiveError as error:
                failure = failure_of(error)
            useless = await self._noting.remove(tenant, [one._replace(failure=failure) for one in gone])
            await self._placing.discard(tenant, useless)


def _newest(told: Iterable[Told]) -> tuple[dict[Key, Told], list[Told]]:
    """The newest of each item; and what came before and counts all the same, because an erasure is waited for."""
    newest: dict[Key, Told] = {}
    earlier: list[Told] = []
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


def _is_unread(told: Told) -> bool:
    return told.text is None and not told.gone


def _gone(told: Told, item: Item | None) -> tuple[str, Gone]:
    return told.tenant, Gone(told.place, told.version, told.receipt, None if item is None else item.indexed)


def _drafts(told: Sequence[Told], chunker: Chunker) -> list[Draft]:
    return [drafted(one, chunker) for one in told]


def _finish(drafts: Sequence[Draft], model: str) -> None:
    for draft in drafts:
        finish(draft, model)
