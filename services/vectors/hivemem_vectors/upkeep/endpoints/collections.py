"""The collections of the vector store that were made once: one that is missing after that was lost."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

import structlog

from hivemem_runtime.bounded import BoundedDict
from hivemem_runtime.ledger.port import Append, Ledger, system_write, value_of
from hivemem_vectors.upkeep.entities import EVERYBODY, MADE, SWEEP, MadeCollection

log = structlog.get_logger("hivemem.vectors")

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
