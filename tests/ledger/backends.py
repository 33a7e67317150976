"""The interface that the suite needs from a backend, and each store's implementation.

The tests know only `Backend`. Where stores may differ, a capability states it with its reason.
"""

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

from pymongo import MongoClient

from hivemem_contracts.identifiers import time_from_microseconds
from hivemem_runtime.ledger.entity import AnyEntity
from hivemem_runtime.ledger.mongo import MongoLedger
from hivemem_runtime.ledger.port import Ledger
from hivemem_runtime.ledger.sqlite import SqliteLedger

from .clock import SECOND, ManualClock
from .entities import ENTITIES

CLOSE_SECONDS = 20
_KINDS = ("heads", "records", "cold")


@dataclass(frozen=True, slots=True)
class Options:
    """The settings of a ledger. None keeps the adapter's default."""

    entities: Sequence[AnyEntity] = ENTITIES
    clock: Callable[[], int] | None = None
    queue_limit: int | None = None
    request_memory_seconds: int | None = None

    @property
    def settings(self) -> dict[str, Any]:
        named = {
            "clock": self.clock,
            "queue_limit": self.queue_limit,
            "request_memory_seconds": self.request_memory_seconds,
        }
        return {name: value for name, value in named.items() if value is not None}


@dataclass(frozen=True, slots=True)
class Capabilities:
    scan_words: tuple[str, ...]
    """The words in a query plan of this store for a scan or a sort."""
    fetch_words: tuple[str, ...]
    """The words in a query plan for reads of the heads themselves, beyond an index."""


class Store(Protocol):
    """One empty place for data, deleted after the test."""

    capabilities: Capabilities

    def make(self, options: Options) -> Ledger: ...
    def become_newer(self) -> None:
        """Mark the data as written by a later release."""
        ...

    def kept(self, entity: AnyEntity) -> int:
        """Return the total number of heads and records of an entity."""
        ...

    async def forget_requests(self, ledger: Ledger, now: int) -> None:
        """Delete expired request ids, as happens regularly."""
        ...


@dataclass(slots=True)
class Backend:
    """Opens any number of ledgers on one store: two at once act as two processes that share it."""

    store: Store
    clock: ManualClock = field(default_factory=ManualClock)
    _opened: list[Ledger] = field(default_factory=list[Ledger])

    @property
    def capabilities(self) -> Capabilities:
        return self.store.capabilities

    async def open(
        self,
        entities: Sequence[AnyEntity] = ENTITIES,
        *,
        clock: Callable[[], int] | None = None,
        queue_limit: int | None = None,
        request_memory_seconds: int | None = None,
    ) -> Ledger:
        ledger = self.store.make(Options(entities, clock or self.clock, queue_limit, request_memory_seconds))
        await ledger.open()
        self._opened.append(ledger)
        return ledger

    async def close(self, ledger: Ledger) -> None:
        self._opened.remove(ledger)
        await within(ledger.close())

    async def reopen(self, ledger: Ledger) -> Ledger:
        await self.close(ledger)
        return await self.open()

    async def close_all(self) -> None:
        for ledger in tuple(self._opened):
            await self.close(ledger)


async def within(waited: Awaitable[Any]) -> Any:
    """Await with a time limit, so that a hang fails the test instead of the run."""
    async with asyncio.timeout(CLOSE_SECONDS):
        return await waited


@dataclass(slots=True)
class SqliteStore:
    path: Path
    capabilities: Capabilities = Capabilities(
        scan_words=("SCAN", "TEMP B-TREE", "AUTOMATIC"), fetch_words=("USING INDEX",)
    )

    def make(self, options: Options) -> Ledger:
        return SqliteLedger(self.path, options.entities, **options.settings)

    def become_newer(self) -> None:
        with closing(sqlite3.connect(self.path)) as connection, connection:
            changed = connection.execute("UPDATE meta SET value = value + 1 WHERE name = 'data_version'")
            assert changed.rowcount == 1

    def kept(self, entity: AnyEntity) -> int:
        with closing(sqlite3.connect(self.path)) as connection:
            counts = [connection.execute(f"SELECT count(*) FROM {entity.name}_{kind}").fetchone()[0] for kind in _KINDS]
        return sum(counts)

    async def forget_requests(self, ledger: Ledger, now: int) -> None:
        assert isinstance(ledger, SqliteLedger)
        await ledger.purge()


@dataclass(slots=True)
class MongoStore:
    url: str
    database: str
    driver: Literal["motor", "pymongo"]
    client: MongoClient[dict[str, Any]]
    capabilities: Capabilities = Capabilities(scan_words=("COLLSCAN", "SORT"), fetch_words=("FETCH",))
    has_other_entities: bool = False
    """Whether a ledger with other entities than those of the suite was opened."""

    def make(self, options: Options) -> Ledger:
        self.has_other_entities |= options.entities is not ENTITIES
        return MongoLedger(self.url, options.entities, database=self.database, driver=self.driver, **options.settings)

    def become_newer(self) -> None:
        changed = self.client[self.database]["meta"].update_one({"_id": "data"}, {"$inc": {"version": 1}})
        assert changed.modified_count == 1

    def kept(self, entity: AnyEntity) -> int:
        return sum(self.client[self.database][f"{entity.name}_{kind}"].count_documents({}) for kind in _KINDS)

    async def forget_requests(self, ledger: Ledger, now: int) -> None:
        """Delete expired ids by the test's clock on the same index. The server uses its own clock, once a minute."""
        requests = self.client[self.database]["requests"]
        (expiring,) = [index for index in requests.index_information().values() if "expireAfterSeconds" in index]
        ((field, _),) = expiring["key"]
        before = time_from_microseconds(now - int(expiring["expireAfterSeconds"]) * SECOND)
        requests.delete_many({field: {"$lte": before}})
