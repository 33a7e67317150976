"""The ledger on a MongoDB database."""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from hivemem_runtime.ledger.entity import AnyEntity, Entity, HeadT, RecordT, Scalar, Stamp
from hivemem_runtime.ledger.feed_mark import FeedMark
from hivemem_runtime.ledger.mongo.abandoned import Upkeep
from hivemem_runtime.ledger.mongo.committer import Committer
from hivemem_runtime.ledger.mongo.documents import HIGHEST_VERSION, META
from hivemem_runtime.ledger.mongo.driver import DEFAULT_DRIVER, Database, DriverName
from hivemem_runtime.ledger.mongo.erasing import Eraser, Erasure
from hivemem_runtime.ledger.mongo.errors import translated, unavailable
from hivemem_runtime.ledger.mongo.feed_marks import announce_again, read_feed_mark
from hivemem_runtime.ledger.mongo.freezing import freeze_some
from hivemem_runtime.ledger.mongo.heads import read_due, read_heads, read_tenants
from hivemem_runtime.ledger.mongo.history import MongoSpan, read_history, read_versions
from hivemem_runtime.ledger.mongo.moments import read_as_of, read_version_at
from hivemem_runtime.ledger.mongo.purging import resume_purges
from hivemem_runtime.ledger.mongo.queries import MongoHeadQuery, count_heads, explain_query, find_covered, find_heads
from hivemem_runtime.ledger.mongo.schema import prepare
from hivemem_runtime.ledger.mongo.workbench import Workbench
from hivemem_runtime.ledger.port import Covered, Due, Head, Listener, Outcome, Page, QueryKind, Record, Write

QUEUE_LIMIT: Final = 16_384
BATCH_WRITES: Final = 256
REQUEST_MEMORY_SECONDS: Final = 7 * 86_400
_PREPARE_SECONDS: Final = 3_600.0
"""An index over much data takes its time."""


def microseconds() -> int:
    return time.time_ns() // 1_000


@dataclass(frozen=True, slots=True)
class _Opened:
    database: Database
    bench: Workbench
    committer: Committer
    eraser: Eraser
    upkeep: Upkeep


class MongoLedger:
    """See `hivemem_runtime.ledger.port.Ledger`. Needs MongoDB 8.0 or later, running as a replica set."""

    def __init__(
        self,
        url: str,
        entities: Sequence[AnyEntity],
        *,
        database: str,
        clock: Callable[[], int] = microseconds,
        request_memory_seconds: float = REQUEST_MEMORY_SECONDS,
        batch_writes: int = BATCH_WRITES,
        queue_limit: int = QUEUE_LIMIT,
        driver: DriverName = DEFAULT_DRIVER,
    ) -> None:
        self._url = url
        self._name = database
        self._entities: Mapping[str, AnyEntity] = {entity.name: entity for entity in entities}
        self._clock = clock
        self._memory = int(request_memory_seconds * 1_000_000)
        self._batch_writes = batch_writes
        self._queue_limit = queue_limit
        self._driver: DriverName = driver
        self._listeners: list[Listener] = []
        self._opened: _Opened | None = None

    def on_commit(self, listener: Listener) -> None:
        self._listeners.append(listener)

    async def open(self) -> None:
        await self._prepare()
        with translated():
            database = Database(self._url, self._name, self._driver)
        bench = Workbench(database, self._entities, self._clock, self._memory, listeners=self._listeners)
        try:
            await resume_purges(bench)
        except BaseException:
            await database.close()
            raise
        committer = Committer(bench, batch_writes=self._batch_writes, queue_limit=self._queue_limit)
        self._opened = _Opened(database, bench, committer, Eraser(bench, committer.alone), Upkeep(database))

    async def close(self) -> None:
        opened, self._opened = self._opened, None
        if opened is not None:
            await opened.eraser.stop()
            await opened.committer.stop()
            await opened.upkeep.stop()
            await opened.bench.close()
            await opened.database.close()

    async def check(self) -> None:
        command = {
            "update": META,
            "updates": [{"q": {"_id": "check"}, "u": {"$set": {"at": self._clock()}}, "upsert": True}],
            "writeConcern": {"w": "majority"},
        }
        with translated():
            await self._database.command(command)

    def commit(self, write: Write) -> asyncio.Future[Outcome]:
        return self._open.committer.submit(write)

    async def head(self, entity: Entity[HeadT, RecordT], tenant: str, id: str) -> Head[HeadT] | None:
        return (await read_heads(self._database, entity, tenant, [id])).get(id)

    async def heads(self, entity: Entity[HeadT, RecordT], tenant: str, ids: Sequence[str]) -> dict[str, Head[HeadT]]:
        return await read_heads(self._database, entity, tenant, ids)

    async def record(
        self, entity: Entity[HeadT, RecordT], tenant: str, id: str, version: int
    ) -> Record[RecordT] | None:
        assert entity.history, f"{entity.name} keeps no history"
        place = (tenant, id, version)
        return (await read_versions(self._database, entity, [place])).get(place)

    async def history(
        self,
        entity: Entity[HeadT, RecordT],
        tenant: str,
        id: str,
        *,
        after: int = 0,
        before: int | None = None,
        limit: int,
        reverse: bool = False,
        by_position: bool = False,
        tag: tuple[str, str] | None = None,
    ) -> list[Record[RecordT]]:
        assert entity.history, f"{entity.name} keeps no history"
        end = HIGHEST_VERSION if before is None else before
        stretch = MongoSpan(tenant, id, max(after, 0), end, limit, reverse, by_position, tag)
        return await read_history(self._database, entity, stretch)

    async def version_at(self, entity: AnyEntity, tenant: str, id: str, at: int) -> int:
        assert entity.history, f"{entity.name} keeps no history"
        return await read_version_at(self._database, entity, tenant, id, at)

    async def find(
        self,
        entity: Entity[HeadT, RecordT],
        tenant: str,
        index: str,
        *,
        equals: Mapping[str, Scalar],
        low: Scalar = None,
        high: Scalar = None,
        reverse: bool = False,
        cursor: str | None = None,
        limit: int,
    ) -> Page[Head[HeadT]]:
        wanted = MongoHeadQuery(tenant, entity.index_by_name[index], equals, low, high, reverse, cursor, limit)
        return await find_heads(self._database, entity, wanted)

    async def covered(
        self,
        entity: AnyEntity,
        tenant: str,
        index: str,
        *,
        equals: Mapping[str, Scalar],
        low: Scalar = None,
        high: Scalar = None,
        reverse: bool = False,
        cursor: str | None = None,
        limit: int,
    ) -> Page[Covered]:
        wanted = MongoHeadQuery(tenant, entity.index_by_name[index], equals, low, high, reverse, cursor, limit)
        return await find_covered(self._database, entity, wanted)

    async def count(
        self,
        entity: AnyEntity,
        tenant: str,
        index: str,
        *,
        equals: Mapping[str, Scalar],
        low: Scalar = None,
        high: Scalar = None,
    ) -> int:
        return await count_heads(
            self._database, entity, MongoHeadQuery(tenant, entity.index_by_name[index], equals, low, high)
        )

    async def as_of(
        self, entity: Entity[HeadT, RecordT], tenant: str, ids: Sequence[str], at: int
    ) -> dict[str, Record[RecordT]]:
        assert entity.history, f"{entity.name} keeps no history"
        return await read_as_of(self._database, entity, tenant, ids, at)

    async def tenants(self, entity: AnyEntity) -> list[str]:
        return await read_tenants(self._database, entity)

    async def freeze(self, entity: AnyEntity, tenant: str, id: str, through: int, *, limit: int) -> int:
        assert entity.history, f"{entity.name} keeps no history"
        opened = self._open
        moved = 0
        while moved < limit:
            part = await freeze_some(opened.bench, opened.committer.alone, entity, tenant, id, through, limit - moved)
            if part == 0:
                break
            moved += part
        return moved

    async def erase(
        self,
        entity: AnyEntity,
        tenant: str,
        id: str,
        *,
        actor: str,
        cause: str | None,
        keep_through_position: int = 0,
        version: int | None = None,
    ) -> Stamp | None:
        erasure = Erasure(entity, tenant, id, actor, cause, keep_through_position, version)
        return await self._open.eraser.erase(erasure)

    async def due(self, *, older_than: int, limit: int) -> list[Due]:
        opened = self._open
        await opened.committer.flush()
        entities = [entity for entity in self._entities.values() if entity.history]
        return await read_due(opened.database, entities, opened.bench.marks, older_than, limit)

    def announced(self, entity: str, tenant: str, id: str, version: int) -> None:
        self._open.committer.mark((entity, tenant, id), version)

    def note_feed(self, mark: FeedMark) -> None:
        self._open.bench.feed = self._open.bench.fence = mark

    async def feed_mark(self) -> FeedMark | None:
        return await read_feed_mark(self._open.bench)

    async def announce_again(self, mark: FeedMark) -> None:
        opened = self._open
        await opened.committer.alone(lambda: announce_again(opened.bench, mark))

    async def explain(self, entity: AnyEntity, index: str, query: QueryKind = "find") -> list[str]:
        return await explain_query(self._database, entity, entity.index_by_name[index], query)

    @property
    def _open(self) -> _Opened:
        if self._opened is None:
            raise unavailable("the ledger is not open")
        return self._opened

    @property
    def _database(self) -> Database:
        return self._open.database

    async def _prepare(self) -> None:
        with translated():
            database = Database(self._url, self._name, self._driver, _PREPARE_SECONDS)
            try:
                await prepare(database, list(self._entities.values()))
            finally:
                await database.close()
