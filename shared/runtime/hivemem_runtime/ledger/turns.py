"""The order of queued writes: tenants take turns, and slow decisions are committed in batches of their own.

So a tenant whose decisions take long, or who sends many writes, holds up another one for about one slow decision.
"""

import time
from collections import OrderedDict, deque
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

_QUICK_SECONDS: Final = 0.0002
_SLOW_SECONDS: Final = 0.0005
_SLOW_SECONDS_OF_A_BATCH: Final = 0.005
_SECONDS_OF_A_BATCH: Final = 0.025
_SLOW_JOBS: Final = 8

JobT = TypeVar("JobT")
Queues = OrderedDict[str, deque[JobT]]


@dataclass(slots=True)
class _Run(Generic[JobT]):
    """Jobs of one kind between two borders, by tenant."""

    kind: object
    queues: Queues[JobT]
    is_border: bool


class TurnQueue(Generic[JobT]):
    """Jobs of one kind and tenant keep their order; kinds take turns, and within a kind the tenants. Nothing passes a
    border. Tenants that were slow are not mixed with others: a batch of these, then a short one of those."""

    def __init__(
        self,
        kind: Callable[[JobT], object],
        tenant: Callable[[JobT], str],
        is_border: Callable[[JobT], bool] = lambda job: False,
    ) -> None:
        self._kind = kind
        self._tenant = tenant
        self._is_border = is_border
        self._runs: deque[_Run[JobT]] = deque()
        self._count = 0
        self._slow: set[str] = set()
        self._slow_turn = False

    def __len__(self) -> int:
        return self._count

    def put(self, job: JobT) -> None:
        self._run_of(job).queues.setdefault(self._tenant(job), deque()).append(job)
        self._count += 1

    def _run_of(self, job: JobT) -> "_Run[JobT]":
        """The run of the job's kind behind the last border."""
        kind, is_border = self._kind(job), self._is_border(job)
        for run in reversed(self._runs):
            if is_border or run.is_border:
                break
            if run.kind == kind:
                return run
        self._runs.append(_Run(kind, OrderedDict(), is_border))
        return self._runs[-1]

    def take(self, limit: int) -> list[JobT]:
        """At most `limit` jobs of the kind that is next, one of each tenant in turn."""
        if not self._runs:
            return []
        run = self._runs.popleft()
        queues = run.queues
        tenants = list(queues)
        slow = [tenant for tenant in tenants if tenant in self._slow] if self._slow else []
        fast = [tenant for tenant in tenants if tenant not in self._slow] if slow else tenants
        self._slow_turn = bool(slow) and not (fast and self._slow_turn)
        taken = _rounds(queues, slow, min(limit, _SLOW_JOBS)) if self._slow_turn else _rounds(queues, fast, limit)
        if queues:
            self._runs.insert(self._first_border(), run)
        self._count -= len(taken)
        return taken

    def _first_border(self) -> int:
        return next((place for place, run in enumerate(self._runs) if run.is_border), len(self._runs))

    def put_back(self, jobs: Sequence[JobT]) -> None:
        """Put back jobs that were taken and not worked on, ahead of other jobs of their kind, in their order."""
        if not jobs:
            return
        kind, border = self._kind(jobs[0]), self._first_border()
        first: Queues[JobT] = OrderedDict()
        for job in jobs:
            first.setdefault(self._tenant(job), deque()).append(job)
        place = next((place for place in range(border) if self._runs[place].kind == kind), border)
        if place < border:
            for tenant, queue in self._runs[place].queues.items():
                first.setdefault(tenant, deque()).extend(queue)
            del self._runs[place]
        self._runs.insert(place, _Run(kind, first, is_border=False))
        self._count += len(jobs)

    def note(self, jobs: Sequence[JobT], slow: Collection[str]) -> None:
        """Jobs that were worked on, and the tenants that had slow decisions among them."""
        if self._slow:
            self._slow.difference_update(map(self._tenant, jobs))
        self._slow.update(slow)

    def clear(self) -> list[JobT]:
        """Take every job, of any kind."""
        jobs: list[JobT] = []
        while self._runs:
            jobs += self.take(self._count)
        return jobs


def _rounds(queues: Queues[JobT], tenants: list[str], limit: int) -> list[JobT]:
    """Take one job of each of the tenants, again and again."""
    taken: list[JobT] = []
    waiting = deque(tenants)
    while waiting and len(taken) < limit:
        tenant = waiting.popleft()
        queue = queues[tenant]
        taken.append(queue.popleft())
        if queue:
            queues.move_to_end(tenant)
            waiting.append(tenant)
        else:
            del queues[tenant]
    return taken


class DecisionTimes:
    """What the decisions of one batch take, and when they end it. This orders writes; no outcome depends on it.

    What counts is the thread's own time, so a busy machine makes nothing slow. The system's clock of it takes as long
    as a short decision, so it is read for long ones alone.
    """

    def __init__(self) -> None:
        self.slow_tenants: set[str] = set()
        self._slow_seconds = 0.0
        self._seconds = 0.0
        self._began = 0.0
        self._thread_began = time.thread_time()
        self._quick_seconds = 0.0
        """What quick decisions took since `_thread_began`."""

    def begin(self) -> None:
        """Note that a decision begins."""
        self._began = time.perf_counter()

    def end(self, tenant: str) -> None:
        """Note that the decision has ended, which a tenant asked for."""
        seconds = time.perf_counter() - self._began
        if seconds <= _QUICK_SECONDS:
            self._quick_seconds += seconds
        else:
            now = time.thread_time()
            seconds = min(seconds, max(now - self._thread_began - self._quick_seconds, 0.0))
            self._thread_began, self._quick_seconds = now, 0.0
        self.add(tenant, seconds)

    def add(self, tenant: str, seconds: float) -> None:
        """Count a decision of a tenant."""
        self._seconds += seconds
        if seconds > _SLOW_SECONDS:
            self._slow_seconds += seconds
            self.slow_tenants.add(tenant)

    @property
    def enough(self) -> bool:
        return self._slow_seconds > _SLOW_SECONDS_OF_A_BATCH or self._seconds > _SECONDS_OF_A_BATCH
