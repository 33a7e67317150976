"""Users' vectors that the index did not get, or did not let go of, when they were stored or deleted."""

from typing import Final

from hivemem_contracts.errors import HiveError
from hivemem_runtime.background import Timer, for_each_tenant
from hivemem_runtime.clock import now_microseconds
from hivemem_runtime.ledger.port import Ledger
from hivemem_vectors.own.endpoints.sync import AT_ONCE, Settling
from hivemem_vectors.own.entities import PROGRESS

SECONDS: Final = 1.0
PAGES: Final = 20
"""Of one tenant, in one step."""
DUE_MICROSECONDS: Final = 2_000_000
"""Whoever stored it has so long to bring it to the index itself."""


class Repairing(Timer):
    def __init__(self, ledger: Ledger, settling: Settling, *, due_microseconds: int = DUE_MICROSECONDS) -> None:
        super().__init__("repairing", (self.step,), SECONDS)
        self._ledger = ledger
        self._settling = settling
        self._due = due_microseconds

    async def step(self) -> None:
        await for_each_tenant(self._ledger, PROGRESS, self.repair)

    async def repair(self, tenant: str) -> None:
        """What is due, the oldest first. Raises what keeps some of it from the index."""
        before = now_microseconds() - self._due
        cursor: str | None = None
        failure: HiveError | None = None
        for _ in range(PAGES):
            if self._settling.is_away:
                break
            page = await self._ledger.covered(
                PROGRESS, tenant, "waiting", equals={}, high=before, cursor=cursor, limit=AT_ONCE
            )
            try:
                await self._settling.settle(tenant, [found.id for found in page.items])
            except HiveError as error:
                failure = error
            cursor = page.cursor
            if cursor is None:
                break
        if failure is not None:
            raise failure
