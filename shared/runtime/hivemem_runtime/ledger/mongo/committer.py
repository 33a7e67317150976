"""One task that commits, batch by batch, whatever has queued up while the last batch was being committed."""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from hivemem_contracts.errors import HiveError, Overloaded, Unavailable
from hivemem_runtime.ledger.mongo.batch import MongoBatch
from hivemem_runtime.ledger.mongo.cache import HeadKey
from hivemem_runtime.ledger.mongo.documents import head_id, heads_of
from hivemem_runtime.ledger.mongo.driver import Document
from hivemem_runtime.ledger.mongo.errors import RETRY_AFTER_MS, unavailable
from hivemem_runtime.ledger.mongo.feed_marks import write_feed_mark
from hivemem_runtime.ledger.mongo.operations import Operations
from hivemem_runtime.ledger.mongo.plan import Plan
from hivemem_runtime.ledger.mongo.workbench import Workbench
from hivemem_runtime.ledger.port import Outcome, Write
from hivemem_runtime.ledger.turns import TurnQueue

_MARK_SECONDS: Final = 0.4
_MARKS_AT_ONCE: Final = 1_000

ResultT = TypeVar("ResultT")


@dataclass(slots=True)
class _Submitted:
    write: Write
    outcome: "asyncio.Future[Outcome]"


@dataclass(slots=True)
class _Alone:
    """Something that writes and must not meet a batch: it takes its turn in the queue."""

    run: Callable[[], Awaitable[Any]]
    result: "asyncio.Future[Any]"


def _kind(job: _Submitted | _Alone) -> object:
    return job if isinstance(job, _Alone) else _Submitted


def _tenant(job: _Submitted | _Alone) -> str:
    return "" if isinstance(job, _Alone) else job.write.tenant


class Committer:
    def __init__(self, bench: Workbench, *, batch_writes: int, queue_limit: int) -> None:
        self._bench = bench
        self._batch_writes = batch_writes
        self._queue_limit = queue_limit
        self._queue: TurnQueue[_Submitted | _Alone] = TurnQueue(_kind, _tenant)
        self._wake = asyncio.Event()
        self._stopping = False
        self._loop = asyncio.get_running_loop()
        self._marks_timer: asyncio.TimerHandle | None = None
        self._task = self._loop.create_task(self._work())

    def submit(self, write: Write) -> "asyncio.Future[Outcome]":
        outcome: asyncio.Future[Outcome] = self._loop.create_future()
        if self._stopping:
            outcome.set_exception(unavailable("the ledger is being closed"))
        elif len(self._queue) >= self._queue_limit:
            outcome.set_exception(
                Overloaded(
                    f"{self._queue_limit} writes are waiting for the store",
                    limit=self._queue_limit,
                    retry_after_ms=RETRY_AFTER_MS,
                )
            )
        else:
            self._queue.put(_Submitted(write, outcome))
            self._wake.set()
        return outcome

    async def alone(self, run: Callable[[], Awaitable[ResultT]]) -> ResultT:
        """Run something between two batches."""
        if self._stopping:
            raise unavailable("the ledger is being closed")
        return await self._enqueue(run)

    async def flush(self) -> None:
        """Store the marks now."""
        if self._bench.marks or self._bench.feed is not None:
            await self.alone(self._flush_marks)

    def mark(self, key: HeadKey, version: int) -> None:
        marks = self._bench.marks
        marks[key] = max(version, marks.get(key, 0))
        if self._marks_timer is None and not self._stopping:
            self._marks_timer = self._loop.call_later(_MARK_SECONDS, self._flush_soon)

    async def stop(self) -> None:
        """Commit what was submitted and store the marks."""
        self._stopping = True
        if self._marks_timer is not None:
            self._marks_timer.cancel()
        flushed = self._enqueue(self._flush_marks)
        await asyncio.gather(flushed, return_exceptions=True)
        self._wake.set()
        await self._task

    def _enqueue(self, run: Callable[[], Awaitable[ResultT]]) -> "asyncio.Future[ResultT]":
        result: asyncio.Future[ResultT] = self._loop.create_future()
        self._queue.put(_Alone(run, result))
        self._wake.set()
        return result

    async def _work(self) -> None:
        while True:
            while jobs := self._queue.take(self._batch_writes):
                if isinstance(jobs[0], _Alone):
                    await self._run_alone(jobs[0])
                else:
                    await self._commit([job for job in jobs if isinstance(job, _Submitted)])
            if self._stopping:
                return
            self._wake.clear()
            await self._wake.wait()

    async def _run_alone(self, alone: "_Alone") -> None:
        try:
            result = await alone.run()
        except Exception as error:  # whoever asked for it hears of it
            _refuse(alone.result, error)
        else:
            if not alone.result.done():
                alone.result.set_result(result)

    async def _commit(self, submitted: list[_Submitted]) -> None:
        try:
            plan = await MongoBatch(self._bench, [each.write for each in submitted]).commit()
        except Unavailable as error:
            self._fail(submitted, error)
        except Exception as error:
            await self._commit_one_by_one(submitted, error)
        else:
            self._finish(plan, submitted)

    async def _commit_one_by_one(self, submitted: list[_Submitted], error: Exception) -> None:
        """One of them cannot be stored, whatever is done: it alone has to hear so."""
        if len(submitted) == 1:
            _refuse(submitted[0].outcome, error)
            return
        for place, each in enumerate(submitted):
            try:
                plan = await MongoBatch(self._bench, [each.write]).commit()
            except Unavailable as lost:
                self._fail(submitted[place:], lost)
                return
            except Exception as refused:  # the caller's own write is the cause
                _refuse(each.outcome, refused)
            else:
                self._finish(plan, [each])

    def _finish(self, plan: Plan, submitted: Sequence[_Submitted]) -> None:
        self._bench.cache.put(plan.heads)
        for key, head in plan.heads.items():
            if self._bench.marks.get(key, head.announced + 1) <= head.announced:
                del self._bench.marks[key]
        if plan.committed:
            self._bench.tell(plan.committed)
        for each, settled in zip(submitted, plan.settled, strict=False):
            if isinstance(settled, Exception):
                _refuse(each.outcome, settled)
            elif settled is not None and not each.outcome.done():
                each.outcome.set_result(settled)
        self._queue.note(submitted[: len(plan.settled)], plan.times.slow_tenants)
        self._queue.put_back(submitted[len(plan.settled) :])

    def _fail(self, submitted: Sequence[_Submitted], error: HiveError) -> None:
        """Fail these writes and every write queued behind them: no later write may be kept without an earlier one."""
        for each in submitted:
            _refuse(each.outcome, error)
        for behind in self._queue.clear():
            _refuse(behind.result if isinstance(behind, _Alone) else behind.outcome, error)

    def _flush_soon(self) -> None:
        self._marks_timer = None
        self._enqueue(self._flush_marks).add_done_callback(self._flushed)

    def _flushed(self, result: "asyncio.Future[None]") -> None:
        """Marks that could not be stored wait for the next time."""
        result.exception()
        unwritten = self._bench.marks or self._bench.feed is not None
        if unwritten and self._marks_timer is None and not self._stopping:
            self._marks_timer = self._loop.call_later(_MARK_SECONDS, self._flush_soon)

    async def _flush_marks(self) -> None:
        """The feed mark first: no mark of a key may rely on a place of the feed that is not recorded, nor on an earlier
        feed than all workers of the service have by now."""
        feed = self._bench.feed
        newest = feed or self._bench.fence
        if newest is not None and not await write_feed_mark(self._bench, newest):
            self._bench.marks.clear()
        if self._bench.feed is feed:
            self._bench.feed = None
        while self._bench.marks:
            part = dict(list(self._bench.marks.items())[:_MARKS_AT_ONCE])
            await self._bench.write(_marking(self._bench.operations(), part))
            for key, version in part.items():
                known = self._bench.cache.get(key)
                if known is not None and known.announced < version:
                    known.announced = version
                if self._bench.marks.get(key) == version:
                    del self._bench.marks[key]


def _marking(operations: Operations, marks: Mapping[HeadKey, int]) -> Operations:
    """One operation for all keys of an entity with the same version: most often those are the new ones."""
    same: dict[tuple[str, int], list[Document]] = defaultdict(list)
    for (entity, tenant, id), version in marks.items():
        same[entity, version].append(head_id(tenant, id))
    for (entity, version), identities in same.items():
        announced = {"$max": ["$announced", version]}
        still_due = {"$cond": [{"$gt": ["$version", announced]}, True, "$$REMOVE"]}
        # By nothing but `_id`: what else there is to a filter costs more than the update itself.
        where = {"_id": identities[0]} if len(identities) == 1 else {"_id": {"$in": identities}}
        operations.update_many(heads_of(entity), where, [{"$set": {"announced": announced, "due": still_due}}])
    return operations


def _refuse(future: "asyncio.Future[Any]", error: Exception) -> None:
    if not future.done():
        future.set_exception(error)
