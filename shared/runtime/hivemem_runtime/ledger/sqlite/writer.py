"""The writer: one thread that commits whatever has queued up while it was committing the last batch."""

import asyncio
import queue
import sqlite3
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import structlog

from hivemem_contracts.errors import Unavailable
from hivemem_runtime.ledger.port import Committed, Listener, Outcome, Write
from hivemem_runtime.ledger.sqlite.batch import SqliteBatch
from hivemem_runtime.ledger.sqlite.cache import HeadKey, SqliteHeadCache
from hivemem_runtime.ledger.sqlite.connection import unavailable
from hivemem_runtime.ledger.sqlite.tables import Table
from hivemem_runtime.ledger.turns import DecisionTimes, TurnQueue

log = structlog.get_logger("hivemem.ledger")

ResultT = TypeVar("ResultT")


@dataclass(slots=True)
class Context:
    """What a task of the writer works with: a savepoint of its own, inside the transaction of those beside it."""

    connection: sqlite3.Connection
    cache: SqliteHeadCache
    clock: Callable[[], int]
    marks: Mapping[HeadKey, int]
    committed: list[Committed]


Task = Callable[[Context], ResultT]


@dataclass(slots=True)
class WriteJob:
    write: Write
    future: asyncio.Future[Outcome]


@dataclass(slots=True)
class TaskJob(Generic[ResultT]):
    task: Task[ResultT]
    future: asyncio.Future[ResultT]


class _Resume:
    """Everything queued before this was submitted before its submitter could have heard of a failure."""


class _Stop:
    pass


Job = WriteJob | TaskJob[Any] | _Resume | _Stop
Result = tuple[asyncio.Future[Any], Any, BaseException | None]


def _tenant(job: Job) -> str:
    return job.write.tenant if isinstance(job, WriteJob) else ""


def _is_border(job: Job) -> bool:
    return isinstance(job, _Resume | _Stop)


class Writer:
    """Owns the connection that writes. Results are handed to the event loop a batch at a time."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        tables: Mapping[str, Table],
        clock: Callable[[], int],
        batch_writes: int,
        listeners: Sequence[Listener],
    ) -> None:
        self._connection = connection
        self._tables = tables
        self._clock = clock
        self._batch_writes = batch_writes
        self._listeners = listeners
        self._loop = asyncio.get_running_loop()
        self._queue: queue.SimpleQueue[Job] = queue.SimpleQueue()
        self._turns: TurnQueue[Job] = TurnQueue(type, _tenant, _is_border)
        self._cache = SqliteHeadCache()
        self._failure: Unavailable | None = None
        self._thread = threading.Thread(target=self._run, name="ledger-writer", daemon=True)
        self.marks: dict[HeadKey, int] = {}
        self.waiting = 0
        self.refused = False
        """Whether a write was refused since the last check of the store passed."""

    def start(self) -> None:
        self._thread.start()

    @property
    def trouble(self) -> str | None:
        return None if self._thread.is_alive() else "its writer thread has ended; restart the worker"

    async def stop(self) -> None:
        """Commit what was submitted, then end the thread."""
        self._queue.put(_Stop())
        await asyncio.to_thread(self._thread.join)
        self._connection.close()

    def put(self, job: WriteJob | TaskJob[Any]) -> None:
        self.waiting += 1
        self._queue.put(job)

    def run(self, task: Task[ResultT]) -> asyncio.Future[ResultT]:
        future: asyncio.Future[ResultT] = self._loop.create_future()
        self.put(TaskJob(task, future))
        return future

    def forget_marks(self, written: Mapping[HeadKey, int]) -> None:
        """Marks that are in the store now, unless they have grown meanwhile."""
        for key, version in written.items():
            if self.marks.get(key) == version:
                del self.marks[key]

    def _run(self) -> None:
        try:
            self._work()
        except Exception:
            log.exception("the ledger's writer thread failed")

    def _work(self) -> None:
        """The thread. Of the jobs that stand together, writes are committed together and tasks are."""
        while True:
            jobs = self._next()
            if isinstance(jobs[0], _Stop):
                return
            if isinstance(jobs[0], _Resume):
                self._failure = None
                continue
            writes = [job for job in jobs if isinstance(job, WriteJob)]
            tasks = [job for job in jobs if isinstance(job, TaskJob)]
            if self._failure is not None:
                futures = [*[job.future for job in writes], *[job.future for job in tasks]]
                self._deliver([(future, None, self._failure) for future in futures], [])
            elif writes:
                self._turns.put_back(self._commit(writes))
            else:
                self._run_tasks(tasks)

    def _next(self) -> list[Job]:
        """Return the jobs whose turn it is."""
        if not self._turns:
            self._turns.put(self._queue.get())
        while not self._queue.empty():
            self._turns.put(self._queue.get())
        return self._turns.take(self._batch_writes)

    def _commit(self, jobs: list[WriteJob]) -> list[WriteJob]:
        """The jobs that are left for the next batch, where decisions take long."""
        results: list[Result] = []
        times = DecisionTimes()
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            self._cache.refresh(self._connection)
            batch = SqliteBatch(self._connection, self._tables, self._cache, self._clock, self.marks)
            batch.load([job.write for job in jobs])
            for place, job in enumerate(jobs):
                times.begin()
                try:
                    results.append((job.future, batch.run(place, job.write), None))
                except sqlite3.Error:
                    raise
                except Exception as error:  # the caller hears what its decision raised
                    results.append((job.future, None, error))
                times.end(job.write.tenant)
                if times.enough:
                    break
            heads = batch.apply()
            self._connection.execute("COMMIT")
        except sqlite3.Error as error:
            self._fail([job.future for job in jobs], error)
            return []
        except Exception as error:
            # One of them has a head that cannot be kept: each alone, so that only that one fails.
            self._roll_back()
            if len(jobs) == 1:
                self._deliver([(jobs[0].future, None, error)], [])
            for job in jobs if len(jobs) > 1 else ():
                self._commit_alone(job)
            return []
        self._cache.put(heads)
        self._deliver(results, batch.committed)
        self._turns.note(jobs[: len(results)], times.slow_tenants)
        return jobs[len(results) :]

    def _commit_alone(self, job: WriteJob) -> None:
        if self._failure is None:
            self._commit([job])
        else:
            self._deliver([(job.future, None, self._failure)], [])

    def _run_tasks(self, jobs: list[TaskJob[Any]]) -> None:
        committed: list[Committed] = []
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            self._cache.refresh(self._connection)
            results = [self._run_task(job, committed) for job in jobs]
            self._connection.execute("COMMIT")
        except sqlite3.Error as error:
            self._fail([job.future for job in jobs], error)
            return
        self._deliver(results, committed)

    def _run_task(self, job: TaskJob[Any], committed: list[Committed]) -> Result:
        """Run a task in a savepoint. An error is passed to its caller and undoes this task alone."""
        context = Context(self._connection, self._cache, self._clock, self.marks, [])
        self._connection.execute("SAVEPOINT task")
        try:
            result: Result = (job.future, job.task(context), None)
            committed += context.committed
        except sqlite3.Error:
            raise
        except Exception as error:
            self._connection.execute("ROLLBACK TO task")
            self._cache.clear()
            result = (job.future, None, error)
        self._connection.execute("RELEASE task")
        return result

    def _fail(self, futures: Sequence[asyncio.Future[Any]], error: Exception) -> None:
        """Nothing of the batch is there, and whatever was submitted behind it fails too: order holds."""
        self._roll_back()
        self.refused = True
        shown = unavailable(error) if isinstance(error, sqlite3.Error) else error
        self._failure = (
            shown
            if isinstance(shown, Unavailable)
            else Unavailable("a write before this one could not be stored", retry_after_ms=100)
        )
        self._failure.__cause__ = error
        self._deliver([(future, None, shown) for future in futures], [], failed=True)

    def _roll_back(self) -> None:
        self._cache.clear()
        try:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
        except sqlite3.Error:
            self._cache.clear()

    def _deliver(self, results: list[Result], committed: list[Committed], *, failed: bool = False) -> None:
        self._loop.call_soon_threadsafe(self._arrive, results, committed, failed)

    def _arrive(self, results: list[Result], committed: list[Committed], failed: bool) -> None:
        """On the event loop."""
        self.waiting -= len(results)
        try:
            if committed:
                for listener in self._listeners:
                    listener(committed)
        finally:
            # A durable write is acknowledged even if a listener fails; the event loop reports that.
            self._answer(results)
            if failed:
                self._queue.put(_Resume())

    def _answer(self, results: list[Result]) -> None:
        for future, result, error in results:
            if future.done():
                continue
            if error is None:
                future.set_result(result)
            else:
                future.set_exception(error)
