"""The timer that sweeps all tenants regularly, and at once after a collection was lost.

A collection that was made once, and is missing, was lost.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Final

import structlog

from hivemem_contracts.errors import HiveError, InvalidRequest, RevisionConflict
from hivemem_contracts.identifiers import new_id
from hivemem_contracts.vectors.replies import SweepPage
from hivemem_runtime.background import Timer
from hivemem_runtime.batches import slices
from hivemem_runtime.bounded import BoundedDict
from hivemem_runtime.clock import now_microseconds
from hivemem_runtime.ledger.current import current_values
from hivemem_runtime.ledger.port import Append, Decide, Ledger, Outcome, system_write, value_of
from hivemem_vectors.own.entities import PROGRESS
from hivemem_vectors.pipeline.endpoints.outdated_words import OutdatedWords
from hivemem_vectors.pipeline.entities import ITEM
from hivemem_vectors.upkeep.decisions import Tally, claim, get_on, is_due, want, want_words
from hivemem_vectors.upkeep.endpoints.sweep import ITEMS, VECTORS, SweepEndpoint
from hivemem_vectors.upkeep.entities import EVERYBODY, MADE, SWEEP, MadeCollection, Sweep

FRESH_SECONDS: Final = 1.0
"""How long an answer about lost collections is reused."""
TENANTS_KEPT: Final = 10_000
LOST_AT_ONCE: Final = 100


class LostCollections:
    """The log of a `GuardedStore`, kept in the ledger so that all workers share it."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._listeners: list[Callable[[], None]] = []
        self._incomplete = BoundedDict[str, tuple[float, frozenset[str]]](TENANTS_KEPT)
        """By tenant: the lost collections, and until when they are known."""

    def on_lost(self, listener: Callable[[], None]) -> None:
        """Call `listener` when a lost collection was made again, and has to be filled."""
        self._listeners.append(listener)

    async def was_made(self, collection: str) -> bool:
        return await self._ledger.head(MADE, EVERYBODY, collection) is not None

    async def note(self, collection: str, *, lost: bool) -> None:
        append = Append(MADE, collection, MadeCollection(lost))
        await self._ledger.commit(system_write(EVERYBODY, MADE, collection, lambda heads, now: [append]))
        if lost:
            self._incomplete.clear()

    def made_again(self, collection: str) -> None:
        log.warning("a collection was lost, and is filled again", collection=collection)
        for listener in self._listeners:
            listener()

    async def is_incomplete(self, tenant: str, collection: str) -> bool:
        now = asyncio.get_running_loop().time()
        until, lost = self._incomplete.get(tenant, (0.0, frozenset[str]()))
        if until < now:
            lost = await self._lost_of(tenant)
            self._incomplete[tenant] = now + FRESH_SECONDS, lost
        return collection in lost

    async def lost(self) -> list[str]:
        """Return the lost collections of which not every tenant's sweep knows yet."""
        page = await self._ledger.covered(MADE, EVERYBODY, "lost", equals={}, limit=LOST_AT_ONCE)
        return [found.id for found in page.items]

    async def told(self, collections: Sequence[str]) -> None:
        """Note that every tenant's sweep knows of the loss of these collections."""
        for collection in collections:
            await self.note(collection, lost=False)

    async def _lost_of(self, tenant: str) -> frozenset[str]:
        sweep = value_of(await self._ledger.head(SWEEP, EVERYBODY, tenant))
        return frozenset({*await self.lost(), *(() if sweep is None else (*sweep.wanted, *sweep.lost))})


log = structlog.get_logger("hivemem.vectors")

SECONDS: Final = 10.0
TENANTS_AT_ONCE: Final = 100
REST: Final = 4.0
"""The rest after each part, as a factor of its duration: agents' calls come first."""
LONGEST_REST_SECONDS: Final = 5.0


class Sweeper(Timer):
    """Sweeps one tenant after the other. The ledger knows which worker sweeps a tenant, and how far. `collection` holds
    the points of all items."""

    def __init__(
        self,
        ledger: Ledger,
        sweeping: SweepEndpoint,
        collections: LostCollections,
        outdated: OutdatedWords,
        *,
        collection: str,
        sweep_seconds: float,
    ) -> None:
        super().__init__("sweeper", (self.step,), SECONDS)
        self._ledger = ledger
        self._sweeping = sweeping
        self._collection = collection
        self._every = int(sweep_seconds * 1_000_000)
        self.worker = new_id()
        self._collections = collections
        self._outdated = outdated
        self._looked_at = set[str]()
        collections.on_lost(self.wake)

    async def step(self) -> None:
        tenants = sorted({*await self._ledger.tenants(ITEM), *await self._ledger.tenants(PROGRESS)})
        await self._tell(tenants)
        await self._look_at_words(tenants)
        for tenant in await self._due(tenants):
            if self.stopping:
                return
            try:
                await self._sweep(tenant)
            except HiveError as error:
                log.warning("a sweep is put off", tenant=tenant, error=str(error))

    async def _tell(self, tenants: Sequence[str]) -> None:
        """Note for all tenants that their points of a collection are lost."""
        lost = await self._collections.lost()
        if not lost:
            return
        for some in slices(tenants, TENANTS_AT_ONCE):
            await self._commit(some, _telling(some, lost))
        await self._collections.told(lost)

    async def _look_at_words(self, tenants: Sequence[str]) -> None:
        """Have tenants swept soon whose points have words of an earlier scheme. Each is looked at once."""
        for tenant in tenants:
            if tenant in self._looked_at or self.stopping:
                continue
            try:
                if await self._outdated.remain(tenant):
                    await self._commit([tenant], _wanting_words(tenant))
            except HiveError as error:
                log.info("the words of points are not looked at", tenant=tenant, error=error.name)
                return
            self._looked_at.add(tenant)

    async def _due(self, tenants: Sequence[str]) -> list[str]:
        due: list[str] = []
        for some in slices(tenants, TENANTS_AT_ONCE):
            found = await current_values(self._ledger, SWEEP, EVERYBODY, some)
            now = now_microseconds()
            due += [tenant for tenant in some if is_due(found.get(tenant), self.worker, now, self._every)]
        return due

    async def _sweep(self, tenant: str) -> None:
        """Sweep a tenant to the end, or until an error. The next step continues, here or in another worker."""
        sweep = await self._claim(tenant)
        if sweep is None or not sweep.running:
            return
        cursor = sweep.cursor
        whole = Tally()
        while not self.stopping:
            began = time.monotonic()
            page = await self._part(tenant, cursor)
            whole.add(Tally(page.checked, page.missing, page.left_over))
            cursor = page.cursor
            try:
                await self._commit([tenant], _getting_on(tenant, self.worker, cursor))
            except RevisionConflict:
                return
            if cursor is None:
                break
            if not sweep.lost:
                await asyncio.sleep(min(REST * (time.monotonic() - began), LONGEST_REST_SECONDS))
        if whole.missing or whole.left_over:
            log.info("a sweep has repaired the index", tenant=tenant, missing=whole.missing, left_over=whole.left_over)

    async def _part(self, tenant: str, cursor: str | None) -> SweepPage:
        try:
            return await self._sweeping.part(tenant, cursor, False)
        except InvalidRequest as error:
            if error.context.get("field") != "cursor":
                raise
            # Another release began it.
            return await self._sweeping.part(tenant, None, False)

    async def _claim(self, tenant: str) -> Sweep | None:
        def begin_at(lost: Sequence[str]) -> str:
            return self._sweeping.begin_at(tenant, ITEMS if not lost or self._collection in lost else VECTORS)

        outcome = await self._commit(
            [tenant],
            lambda heads, now: claim(heads, tenant, self.worker, now, every=self._every, begin_at=begin_at),
        )
        found: Sweep | None = outcome.record
        return found

    async def _commit(self, tenants: Sequence[str], decide: Decide) -> Outcome:
        reads = [(SWEEP, tenant) for tenant in tenants]
        return await self._ledger.commit(system_write(EVERYBODY, SWEEP, tenants[0], decide, reads))


def _wanting_words(tenant: str) -> Decide:
    return lambda heads, now: want_words(heads, tenant)


def _telling(tenants: Sequence[str], lost: Sequence[str]) -> Decide:
    return lambda heads, now: want(heads, tenants, lost)


def _getting_on(tenant: str, worker: str, cursor: str | None) -> Decide:
    return lambda heads, now: get_on(heads, tenant, worker, cursor, now)
