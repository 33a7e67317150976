"""The worker's clock for runs: acts on steps whose time has come.

Each worker acts at once on what it committed itself. A sweep over all tenants finds what other workers left.
"""

import asyncio
import heapq
from collections.abc import Sequence
from typing import Final

import structlog

from hivemem_agents.workflows.endpoints.settling import Settling
from hivemem_agents.workflows.entities import STEP, StepExecution
from hivemem_contracts.errors import HiveError
from hivemem_runtime.background import Timer, for_each_tenant
from hivemem_runtime.clock import elapsed_seconds, now_microseconds
from hivemem_runtime.ledger.pages import pages
from hivemem_runtime.ledger.port import Committed, Ledger

log = structlog.get_logger("hivemem.workflows")

SWEEP_SECONDS: Final = 1.0
SETTLE_MICROSECONDS: Final = 2_000_000
"""Accepted results are left alone for this long, because a request is about to go on with them."""
AT_ONCE: Final = 100
SOON: Final = 10_000
"""The times that are kept in memory; the sweep finds the others."""


class RunClock(Timer):
    def __init__(self, ledger: Ledger, settling: Settling) -> None:
        super().__init__("run-clock", (self.act_soon, self.sweep), SWEEP_SECONDS)
        self._ledger = ledger
        self._settling = settling
        self._soon: list[tuple[int, str, str]] = []
        self._swept = -SWEEP_SECONDS
        self._alarm: asyncio.TimerHandle | None = None
        ledger.on_commit(self._committed)

    async def stop(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
        await super().stop()

    async def act_soon(self) -> None:
        """Act on the steps of this worker's commits that are due."""
        due: dict[tuple[str, str], None] = {}
        while self._soon and self._soon[0][0] <= now_microseconds():
            _, tenant, place = heapq.heappop(self._soon)
            due[tenant, place] = None
        await self._act_on(list(due))
        self._set_alarm()

    async def sweep(self) -> None:
        if elapsed_seconds() - self._swept < SWEEP_SECONDS:
            return
        self._swept = elapsed_seconds()
        await for_each_tenant(self._ledger, STEP, self.act_all)

    async def act_all(self, tenant: str) -> None:
        """Act on the steps of a tenant that are due."""
        due = now_microseconds() - SETTLE_MICROSECONDS
        async for found in pages(
            lambda cursor: self._ledger.covered(STEP, tenant, "due", equals={}, high=due, cursor=cursor, limit=AT_ONCE)
        ):
            await self._act_on([(tenant, step.id) for step in found])

    async def _act_on(self, some: Sequence[tuple[str, str]]) -> None:
        for start in range(0, len(some), AT_ONCE):
            part = some[start : start + AT_ONCE]
            acts = [self._settling.act(tenant, place) for tenant, place in part]
            for (tenant, place), result in zip(part, await asyncio.gather(*acts, return_exceptions=True), strict=True):
                if isinstance(result, HiveError):
                    log.warning("step postponed", tenant=tenant, step=place, error=str(result))
                elif isinstance(result, Exception):
                    log.error("step failed", tenant=tenant, step=place, exc_info=result)

    def _committed(self, batch: Sequence[Committed]) -> None:
        before = self._soon[0][0] if self._soon else None
        for committed in batch:
            head = committed.head
            if isinstance(head, StepExecution) and head.due_at is not None and len(self._soon) < SOON:
                wait = SETTLE_MICROSECONDS if head.accepted is not None else 0
                heapq.heappush(self._soon, (head.due_at + wait, committed.stamp.tenant, committed.stamp.id))
        if self._soon and self._soon[0][0] != before:
            self._set_alarm()

    def _set_alarm(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        if self._soon:
            seconds = (self._soon[0][0] - now_microseconds()) / 1_000_000
            self._alarm = asyncio.get_running_loop().call_later(max(seconds, 0.0) + 0.001, self.wake)
