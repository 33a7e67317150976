"""The timers that retry: items that could not be indexed, and users' vectors that did not reach the index."""

import random
from typing import Final

from hivemem_contracts.errors import HiveError
from hivemem_runtime.background import Timer, for_each_tenant
from hivemem_runtime.clock import now_microseconds
from hivemem_runtime.ledger.port import Ledger
from hivemem_vectors.own.entities import PROGRESS
from hivemem_vectors.own.reactions import AT_ONCE, VectorSync
from hivemem_vectors.pipeline.endpoints.indexing import Indexer
from hivemem_vectors.pipeline.entities import ITEM

SECONDS: Final = 1.0
ITEMS_AT_ONCE: Final = 400
PAGES_OF_ITEMS: Final = 10
PAGES_OF_VECTORS: Final = 20
"""The most pages of one tenant in one step, so that others have their turn."""
DUE_MICROSECONDS: Final = 2_000_000
"""The time that the worker which stored a vector has to bring it to the index itself."""


class ItemRetry(Timer):
    """Retries items that are due, which is soon after a service came back."""

    def __init__(self, ledger: Ledger, indexer: Indexer) -> None:
        super().__init__("retrying", (self.step,), SECONDS)
        self._ledger = ledger
        self._indexer = indexer

    async def step(self) -> None:
        await self._indexer.check_store()
        await for_each_tenant(self._ledger, ITEM, self.retry)

    async def retry(self, tenant: str) -> None:
        """Retry the items of a tenant that are due; if there are more than a few pages, the next step comes at once."""
        for _ in range(PAGES_OF_ITEMS):
            page = await self._ledger.covered(
                ITEM,
                tenant,
                "retry",
                equals={},
                high=now_microseconds() + 1,
                # Workers begin at either end, so that they seldom meet.
                reverse=random.random() < 0.5,  # noqa: S311 nothing is kept secret
                limit=ITEMS_AT_ONCE,
            )
            tried = await self._indexer.retry(tenant, [found.id for found in page.items]) if page.items else 0
            if tried == 0 or page.cursor is None:
                return
        self.wake()


class VectorRepair(Timer):
    """Brings users' vectors to the index that their worker did not get there, and removes deleted ones."""

    def __init__(self, ledger: Ledger, sync: VectorSync, *, due_microseconds: int = DUE_MICROSECONDS) -> None:
        super().__init__("repairing", (self.step,), SECONDS)
        self._ledger = ledger
        self._sync = sync
        self._due = due_microseconds

    async def step(self) -> None:
        await for_each_tenant(self._ledger, PROGRESS, self.repair)

    async def repair(self, tenant: str) -> None:
        """Bring the vectors of a tenant that are due, oldest first. Raises the last error."""
        before = now_microseconds() - self._due
        cursor: str | None = None
        failure: HiveError | None = None
        for _ in range(PAGES_OF_VECTORS):
            if self._sync.is_away:
                break
            page = await self._ledger.covered(
                PROGRESS, tenant, "waiting", equals={}, high=before, cursor=cursor, limit=AT_ONCE
            )
            try:
                await self._sync.settle(tenant, [found.id for found in page.items])
            except HiveError as error:
                failure = error
            cursor = page.cursor
            if cursor is None:
                break
        if failure is not None:
            raise failure
