"""The ledger on one SQLite file."""

import asyncio
import sqlite3
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

from hivemem_contracts.errors import Overloaded, Unavailable
from hivemem_runtime.ledger.entity import AnyEntity, Entity, HeadT, RecordT, Scalar, Stamp
from hivemem_runtime.ledger.feed_mark import FeedMark
from hivemem_runtime.ledger.port import Covered, Due, Head, Listener, Outcome, Page, QueryKind, Record, Write
from hivemem_runtime.ledger.sqlite import queries
from hivemem_runtime.ledger.sqlite.connection import RETRY_AFTER_MS, connect, refusal, unavailable
from hivemem_runtime.ledger.sqlite.history import (
    LATEST,
    SqliteSpan,
    key_of,
    read_as_of,
    read_history,
    read_version_at,
)
from hivemem_runtime.ledger.sqlite.keep import (
    announce_again,
    erase_key,
    freeze_records,
    purge_requests,
    read_feed_mark,
    write_check,
    write_marks,
)
from hivemem_runtime.ledger.sqlite.queries import SqliteHeadQuery
from hivemem_runtime.ledger.sqlite.schema import prepare
from hivemem_runtime.ledger.sqlite.tables import Table
from hivemem_runtime.ledger.sqlite.writer import Task, WriteJob, Writer
from hivemem_runtime.loops import Loop

QUEUE_LIMIT: Final = 16_384
LARGE_CHECK_BYTES: Final = 1024 * 1024
COUNTED_INLINE: Final = 5_000
"""So many are counted in less time than it takes to ask another thread."""
MOMENTS_AT_ONCE: Final = 200
BATCH_WRITES: Final = 512
MARK_SECONDS: Final = 0.5
PURGE_SECONDS: Final = 60.0
REQUEST_MEMORY_SECONDS: Final = 7 * 86_400

ResultT = TypeVar("ResultT")


def microseconds() -> int:
    return time.time_ns() // 1_000


class SqliteLedger:
    """See `hivemem_runtime.ledger.port.Ledger`. Reads run inline: by index, they take microseconds."""

    def __init__(
        self,
        path: str | Path,
        entities: Sequence[AnyEntity],
        *,
        clock: Callable[[], int] = microseconds,
        request_memory_seconds: float = REQUEST_MEMORY_SECONDS,
        batch_writes: int = BATCH_WRITES,
        queue_limit: int = QUEUE_LIMIT,
    ) -> None:
        self._path = Path(path)
        self._tables: Mapping[str, Table] = {entity.name: Table(entity) for entity in entities}
        self._clock = clock
        self._memory = int(request_memory_seconds * 1_000_000)
        self._batch_writes = batch_writes
        self._queue_limit = queue_limit
        self._listeners: list[Listener] = []
        self._reader: sqlite3.Connection | None = None
        self._writer: Writer | None = None
        self._upkeep = Loop("ledger-upkeep", self._keep_up)
        self._counting = asyncio.Lock()
        self._feed: FeedMark | None = None
        """The newest one that is not durable yet."""

    def on_commit(self, listener: Listener) -> None:
        self._listeners.append(listener)

    async def open(self) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        connection = connect(self._path)
        try:
            prepare(connection, self._tables.values())
            self._reader = connect(self._path, read_only=True)
        except sqlite3.Error as error:
            connection.close()
            raise refusal(self._path, error) from error
        except BaseException:
            connection.close()
            raise
        self._writer = Writer(connection, self._tables, self._clock, self._batch_writes, self._listeners)
        self._writer.start()
        self._upkeep.start()

    async def close(self) -> None:
        await self._upkeep.stop()
        if self._writer is not None:
            await self._flush_marks()
            await self._writer.stop()
            self._writer = None
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    async def check(self) -> None:
        writer = self._open_writer()
        trouble = writer.trouble or self._upkeep.trouble
        if trouble is not None:
            raise Unavailable(f"the SQLite store: {trouble}", retry_after_ms=RETRY_AFTER_MS)
        # After a refused write, one byte may fit where a large write does not.
        size = LARGE_CHECK_BYTES if writer.refused else 1
        await self._run(lambda context: write_check(context.connection, size))
        writer.refused = False

    def commit(self, write: Write) -> asyncio.Future[Outcome]:
        writer = self._open_writer()
        future: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        if writer.waiting >= self._queue_limit:
            future.set_exception(
                Overloaded(
                    f"{self._queue_limit} writes are waiting for the store",
                    limit=self._queue_limit,
                    retry_after_ms=RETRY_AFTER_MS,
                )
            )
        else:
            writer.put(WriteJob(write, future))
        return future

    async def head(self, entity: Entity[HeadT, RecordT], tenant: str, id: str) -> Head[HeadT] | None:
        return (await self.heads(entity, tenant, [id])).get(id)

    async def heads(self, entity: Entity[HeadT, RecordT], tenant: str, ids: Sequence[str]) -> dict[str, Head[HeadT]]:
        return self._read(lambda connection: queries.read_heads(connection, entity, tenant, ids))

    async def record(
        self, entity: Entity[HeadT, RecordT], tenant: str, id: str, version: int
    ) -> Record[RecordT] | None:
        found = await self.history(entity, tenant, id, after=version - 1, before=version + 1, limit=1)
        return found[0] if found else None

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
        table = self._tables[entity.name]
        wanted = SqliteSpan(after, LATEST if before is None else before, limit, reverse, by_position, tag)

        def read(connection: sqlite3.Connection) -> list[Record[RecordT]]:
            key = key_of(connection, table, tenant, id)
            found = [] if key is None else read_history(connection, table, key, wanted)
            return [record.read(entity, tenant, id) for record in found]

        return self._read(read)

    async def version_at(self, entity: AnyEntity, tenant: str, id: str, at: int) -> int:
        assert entity.history, f"{entity.name} keeps no history"
        table = self._tables[entity.name]

        def read(connection: sqlite3.Connection) -> int:
            key = key_of(connection, table, tenant, id)
            return 0 if key is None else read_version_at(connection, table, key, at)

        return self._read(read)

    async def as_of(
        self, entity: Entity[HeadT, RecordT], tenant: str, ids: Sequence[str], at: int
    ) -> dict[str, Record[RecordT]]:
        assert entity.history, f"{entity.name} keeps no history"
        table = self._tables[entity.name]
        found: dict[str, Record[RecordT]] = {}
        for start in range(0, len(ids), MOMENTS_AT_ONCE):
            if start:
                await asyncio.sleep(0)
            some = partial(read_as_of, table=table, tenant=tenant, ids=ids[start : start + MOMENTS_AT_ONCE], at=at)
            found.update((id, record.read(entity, tenant, id)) for id, record in self._read(some).items())
        return found

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
        wanted = SqliteHeadQuery(entity, tenant, entity.index_by_name[index], equals, low, high, reverse, cursor)
        return self._read(lambda connection: queries.find_heads(connection, entity, wanted, limit))

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
        wanted = SqliteHeadQuery(entity, tenant, entity.index_by_name[index], equals, low, high, reverse, cursor)
        return self._read(lambda connection: queries.find_covered(connection, wanted, limit))

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
        wanted = SqliteHeadQuery(entity, tenant, entity.index_by_name[index], equals, low, high)
        found = self._read(lambda connection: queries.count_heads(connection, wanted, COUNTED_INLINE))
        if found < COUNTED_INLINE:
            return found
        async with self._counting:
            return await asyncio.to_thread(self._count_aside, wanted)

    def _count_aside(self, wanted: SqliteHeadQuery) -> int:
        """On a connection of its own: a connection answers one at a time."""
        with closing(connect(self._path, read_only=True)) as connection:
            try:
                return queries.count_heads(connection, wanted)
            except sqlite3.Error as error:
                raise unavailable(error) from error

    async def tenants(self, entity: AnyEntity) -> list[str]:
        return self._read(lambda connection: queries.read_tenants(connection, entity))

    async def freeze(self, entity: AnyEntity, tenant: str, id: str, through: int, *, limit: int) -> int:
        assert entity.history, f"{entity.name} keeps no history"
        table = self._tables[entity.name]
        return await self._run(lambda context: freeze_records(context, table, tenant, id, through, limit))

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
        table = self._tables[entity.name]
        return await self._run(
            lambda context: erase_key(context, table, tenant, id, actor, cause, keep_through_position, version)
        )

    async def due(self, *, older_than: int, limit: int) -> list[Due]:
        await self._flush_marks()

        def read(connection: sqlite3.Connection) -> list[Due]:
            found = [
                due
                for table in self._tables.values()
                if table.entity.history
                for due in queries.read_due(connection, table.entity, older_than, limit)
            ]
            return sorted(found, key=lambda due: due.at)[:limit]

        return self._read(read)

    def announced(self, entity: str, tenant: str, id: str, version: int) -> None:
        marks = self._open_writer().marks
        key = (entity, tenant, id)
        marks[key] = max(version, marks.get(key, 0))

    def note_feed(self, mark: FeedMark) -> None:
        self._feed = mark

    async def feed_mark(self) -> FeedMark | None:
        return self._read(read_feed_mark)

    async def announce_again(self, mark: FeedMark) -> None:
        self._feed = None
        self._open_writer().marks.clear()
        await self._run(lambda context: announce_again(context, self._tables.values(), mark))

    async def explain(self, entity: AnyEntity, index: str, query: QueryKind = "find") -> list[str]:
        declared = entity.index_by_name[index]
        wanted = SqliteHeadQuery(entity, "t", declared, dict.fromkeys(declared.equals, "x"), None, None)
        return self._read(lambda connection: queries.explain(connection, wanted, query))

    def _open_writer(self) -> Writer:
        if self._writer is None:
            raise Unavailable("the ledger is not open", retry_after_ms=RETRY_AFTER_MS)
        return self._writer

    def _read(self, read: Callable[[sqlite3.Connection], ResultT]) -> ResultT:
        if self._reader is None:
            raise Unavailable("the ledger is not open", retry_after_ms=RETRY_AFTER_MS)
        try:
            return read(self._reader)
        except sqlite3.Error as error:
            raise unavailable(error) from error

    def _run(self, task: Task[ResultT]) -> Awaitable[ResultT]:
        return self._open_writer().run(task)

    async def _flush_marks(self) -> None:
        writer = self._open_writer()
        feed, marks = self._feed, dict(writer.marks)
        if marks or feed is not None:
            await writer.run(lambda context: write_marks(context, feed, marks))
            writer.forget_marks(marks)
            if self._feed is feed:
                self._feed = None

    async def _keep_up(self) -> None:
        """Marks of keys that nobody writes any more, and request ids that need not be remembered any longer: some at a
        time, so that no write waits for all of them."""
        purged = time.monotonic()
        while not self._upkeep.stopping.is_set():
            await asyncio.sleep(MARK_SECONDS)
            try:
                await self._flush_marks()
                if time.monotonic() - purged > PURGE_SECONDS:
                    purged = time.monotonic()
                    while await self.purge():
                        pass
            except Unavailable:
                continue

    async def purge(self) -> int:
        """Forget request ids older than the memory that was promised; answers how many."""
        before = self._clock() - self._memory
        return await self._run(lambda context: purge_requests(context, before))
