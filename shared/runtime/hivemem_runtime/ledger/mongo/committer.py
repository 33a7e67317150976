"""One task that commits, batch by batch, whatever has queued up while the last batch was being committed."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from hivemem_contracts.errors import HiveError, Overloaded, Unavailable
from hivemem_runtime.ledger.mongo.batch import Batch
from hivemem_runtime.ledger.mongo.cache import HeadKey
from hivemem_runtime.ledger.mongo.documents import head_id, heads_of
from hivemem_runtime.ledger.mongo.errors import RETRY_AFTER_MS, unavailable
from hivemem_runtime.ledger.mongo.plan import Plan
from hivemem_runtime.ledger.mongo.workbench import Workbench
from hivemem_runtime.ledger.port import Outcome, Write

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


class Committer:
    def __init__(self, bench: Workbench, *, batch_writes: int, queue_limit: int) -> None:
        self._bench = bench
        self._batch_writes = batch_writes
        self._queue_limit = queue_limit
        self._queue: deque[_Submitted | _Alone] = deque()
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
            self._queue.append(_Submitted(write, outcome))
            self._wake.set()
        return outcome

    async def alone(self, run: Callable[[], Awaitable[ResultT]]) -> ResultT:
        """Run something between two batches."""
        if self._stopping:
            raise unavailable("the ledger is being closed")
        return await self._enqueue(run)

    async def flush(self) -> None:
        """Store the marks now."""
        if self._bench.marks:
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
        self._queue.append(_Alone(run, result))
        self._wake.set()
        return result

    async def _work(self) -> None:
        while True:
            while self._queue:
                await self._work_on(self._take())
            if self._stopping:
                return
            self._wake.clear()
            await self._wake.wait()

    def _take(self) -> "_Alone | list[_Submitted]":
        batch: list[_Submitted] = []
        while self._queue and len(batch) < self._batch_writes:
            first = self._queue[0]
            if isinstance(first, _Alone):
                return batch or self._take_alone()
            self._queue.popleft()
            batch.append(first)
        return batch

    def _take_alone(self) -> "_Alone":
        alone = self._queue.popleft()
        assert isinstance(alone, _Alone)
        return alone

    async def _work_on(self, taken: "_Alone | list[_Submitted]") -> None:
        if isinstance(taken, _Alone):
            await self._run_alone(taken)
        elif taken:
            await self._commit(taken)

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
            plan = await Batch(self._bench, [each.write for each in submitted]).commit()
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
                plan = await Batch(self._bench, [each.write]).commit()
            except Unavailable as lost:
                self._fail(submitted[place:], lost)
                return
            except Exception as refused:  # the caller's own write is the cause
                _refuse(each.outcome, refused)
            else:
                self._finish(plan, [each])

    def _finish(self, plan: Plan, submitted: Sequence[_Submitted]) -> None:
        self._bench.cache.put(plan.heads.values())
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
        self._queue.extendleft(reversed(submitted[len(plan.settled) :]))

    def _fail(self, submitted: Sequence[_Submitted], error: HiveError) -> None:
        """Whatever was submitted behind it fails too: a later write must not be there without an earlier one."""
        for each in submitted:
            _refuse(each.outcome, error)
        for behind in self._queue:
            _refuse(behind.result if isinstance(behind, _Alone) else behind.outcome, error)
        self._queue.clear()

    def _flush_soon(self) -> None:
        self._marks_timer = None
        self._enqueue(self._flush_marks).add_done_callback(self._flushed)

    def _flushed(self, result: "asyncio.Future[None]") -> None:
        """Marks that could not be stored wait for the next time."""
        result.exception()
        if self._bench.marks and self._marks_timer is None and not self._stopping:
            self._marks_timer = self._loop.call_later(_MARK_SECONDS, self._flush_soon)

    async def _flush_marks(self) -> None:
        while self._bench.marks:
            part = dict(list(self._bench.marks.items())[:_MARKS_AT_ONCE])
            operations = self._bench.operations()
            for (entity, tenant, id), version in part.items():
                still_due = {"$cond": [{"$gt": ["$version", version]}, True, "$$REMOVE"]}
                operations.update_where(
                    heads_of(entity),
                    {"_id": head_id(tenant, id), "announced": {"$lt": version}},
                    [{"$set": {"announced": version, "due": still_due}}],
                )
            await self._bench.write(operations)
            for key, version in part.items():
                known = self._bench.cache.get(key)
                if known is not None and known.announced < version:
                    self._bench.cache.put([known._replace(announced=version)])
                if self._bench.marks.get(key) == version:
                    del self._bench.marks[key]


def _refuse(future: "asyncio.Future[Any]", error: Exception) -> None:
    if not future.done():
        future.set_exception(error)
