"""The collections of the vector store: made where they are missing, which means that one was lost, if it was there
before."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

import structlog

from hivemem_contracts.errors import NotFound
from hivemem_runtime.ledger.port import Append, Ledger, system_write, value_of
from hivemem_vectors.stores.ports import Schema, VectorStore
from hivemem_vectors.upkeep.entities import EVERYBODY, MADE, SWEEP, MadeCollection

log = structlog.get_logger("hivemem.vectors")

FRESH_SECONDS: Final = 1.0
"""For so long it is taken for granted what is lost."""
TENANTS_KEPT: Final = 10_000
LOST_AT_ONCE: Final = 100


class Collections:
    """Whoever brings back what was lost hears of it when the collection is made again, if not before."""

    def __init__(self, store: VectorStore, ledger: Ledger) -> None:
        self._store = store
        self._ledger = ledger
        self._known: set[str] = set()
        self._listeners: list[Callable[[], None]] = []
        self._asking = asyncio.Lock()
        self._incomplete: dict[str, tuple[float, frozenset[str]]] = {}
        """By tenant: until when that holds, and what is lost."""

    def on_lost(self, listener: Callable[[], None]) -> None:
        self._listeners.append(listener)

    async def ensure(self, name: str, schema: Schema) -> None:
        """Asks the store until it has answered once; again after `forget`."""
        if name in self._known:
            return
        async with self._asking:
            if name not in self._known:
                await self._ensure(name, schema)

    def forget(self, name: str) -> None:
        """The store has said that there is none."""
        self._known.discard(name)

    async def is_incomplete(self, tenant: str, name: str) -> bool:
        """Whether it was lost, and not all of the tenant's points are known to be in it again."""
        now = asyncio.get_running_loop().time()
        until, lost = self._incomplete.get(tenant, (0.0, frozenset[str]()))
        if until < now:
            lost = await self._lost_of(tenant)
            if len(self._incomplete) >= TENANTS_KEPT:
                self._incomplete.clear()
            self._incomplete[tenant] = now + FRESH_SECONDS, lost
        return name in lost

    async def lost(self) -> list[str]:
        """Those of which not every tenant is noted as one that has lost something."""
        page = await self._ledger.covered(MADE, EVERYBODY, "lost", equals={}, limit=LOST_AT_ONCE)
        return [found.id for found in page.items]

    async def noted(self, names: Sequence[str]) -> None:
        """Every tenant is, of these."""
        for name in names:
            await self._note(name, lost=False)

    async def _lost_of(self, tenant: str) -> frozenset[str]:
        head = await self._ledger.head(SWEEP, EVERYBODY, tenant)
        sweep = value_of(head)
        return frozenset({*await self.lost(), *(() if sweep is None else (*sweep.wanted, *sweep.lost))})

    async def _ensure(self, name: str, schema: Schema) -> None:
        is_there = await self._is_there(name)
        was_there = await self._ledger.head(MADE, EVERYBODY, name) is not None
        is_lost = was_there and not is_there
        if is_lost:
            # First of all: whoever is killed behind this leaves word of it.
            await self._note(name, lost=True)
            self._incomplete.clear()
        await self._store.ensure_collection(name, schema)
        if not was_there:
            await self._note(name, lost=False)
        self._known.add(name)
        if is_lost:
            log.warning("a collection was lost, and is filled again", collection=name)
            for listener in self._listeners:
                listener()

    async def _is_there(self, name: str) -> bool:
        try:
            await self._store.schema(name)
        except NotFound:
            return False
        return True

    async def _note(self, name: str, *, lost: bool) -> None:
        append = Append(MADE, name, MadeCollection(lost))
        await self._ledger.commit(system_write(EVERYBODY, MADE, name, lambda heads, now: [append]))
