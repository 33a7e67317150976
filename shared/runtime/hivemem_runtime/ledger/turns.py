"""The order of queued writes: tenants take turns, and slow decisions are committed in batches of their own.

So a tenant whose decisions take long, or who sends many writes, holds up another one for about one slow decision.
"""

from collections import OrderedDict, deque
from collections.abc import Callable, Collection, Sequence
from typing import Final, Generic, TypeVar

_SLOW_SECONDS: Final = 0.0005
_SLOW_SECONDS_OF_A_BATCH: Final = 0.005
_SECONDS_OF_A_BATCH: Final = 0.025
_SLOW_JOBS: Final = 8

JobT = TypeVar("JobT")
Queues = OrderedDict[str, deque[JobT]]


class TurnQueue(Generic[JobT]):
    """Jobs of different kinds keep their order, and so do the jobs of one tenant; within a run of one kind, the tenants
    take turns. Tenants that were slow are not mixed with others: a batch of these, then a short one of those."""

    def __init__(self, kind: Callable[[JobT], object], tenant: Callable[[JobT], str]) -> None:
        self._kind = kind
        self._tenant = tenant
        self._runs: deque[tuple[object, Queues[JobT]]] = deque()
        self._count = 0
        self._slow: set[str] = set()
        self._slow_turn = False

    def __len__(self) -> int:
        return self._count

    def put(self, job: JobT) -> None:
        kind, tenant = self._kind(job), self._tenant(job)
        if not self._runs or self._runs[-1][0] != kind:
            self._runs.append((kind, OrderedDict()))
        queues = self._runs[-1][1]
        queue = queues.get(tenant)
        if queue is None:
            queue = queues[tenant] = deque()
        queue.append(job)
        self._count += 1

    def take(self, limit: int) -> list[JobT]:
        """At most `limit` jobs of the kind that is next, one of each tenant in turn."""
        if not self._runs:
            return []
        queues = self._runs[0][1]
        tenants = list(queues)
        slow = [tenant for tenant in tenants if tenant in self._slow] if self._slow else []
        fast = [tenant for tenant in tenants if tenant not in self._slow] if slow else tenants
        self._slow_turn = bool(slow) and not (fast and self._slow_turn)
        taken = _rounds(queues, slow, min(limit, _SLOW_JOBS)) if self._slow_turn else _rounds(queues, fast, limit)
        if not queues:
            self._runs.popleft()
        self._count -= len(taken)
        return taken

    def put_back(self, jobs: Sequence[JobT]) -> None:
        """Jobs that were taken and not worked on: they go first, in their order."""
        if not jobs:
            return
        kind = self._kind(jobs[0])
        first: Queues[JobT] = OrderedDict()
        for job in jobs:
            first.setdefault(self._tenant(job), deque()).append(job)
        behind = self._runs.popleft()[1] if self._runs and self._runs[0][0] == kind else OrderedDict[str, deque[JobT]]()
        for tenant, queue in behind.items():
            first.setdefault(tenant, deque()).extend(queue)
        self._runs.appendleft((kind, first))
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

    What counts is the thread's own time, so a busy machine makes nothing slow.
    """

    def __init__(self) -> None:
        self.slow_tenants: set[str] = set()
        self._slow_seconds = 0.0
        self._seconds = 0.0

    def add(self, tenant: str, seconds: float) -> None:
        self._seconds += seconds
        if seconds > _SLOW_SECONDS:
            self._slow_seconds += seconds
            self.slow_tenants.add(tenant)

    @property
    def enough(self) -> bool:
        return self._slow_seconds > _SLOW_SECONDS_OF_A_BATCH or self._seconds > _SECONDS_OF_A_BATCH
