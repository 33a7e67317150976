"""What could not be indexed is tried again when its time has come, and soon after what was down is there again."""

import random
from typing import Final

from hivemem_runtime.background import Timer, for_each_tenant
from hivemem_runtime.clock import now_microseconds
from hivemem_runtime.ledger.port import Ledger
from hivemem_vectors.pipeline.endpoints.indexing import Indexer
from hivemem_vectors.pipeline.entities import ITEM

SECONDS: Final = 1.0
AT_ONCE: Final = 400
PAGES: Final = 10
"""Of one tenant, before others have their turn."""


class Retrying(Timer):
    def __init__(self, ledger: Ledger, indexer: Indexer) -> None:
        super().__init__("retrying", (self.step,), SECONDS)
        self._ledger = ledger
        self._indexer = indexer

    async def step(self) -> None:
        await self._indexer.check_store()
        await for_each_tenant(self._ledger, ITEM, self.retry)

    async def retry(self, tenant: str) -> None:
        """What is due; where there is more than that, the next step comes at once."""
        for _ in range(PAGES):
            page = await self._ledger.covered(
                ITEM,
                tenant,
                "retry",
                equals={},
                high=now_microseconds() + 1,
                # From either end, so that several workers seldom meet.
                reverse=random.random() < 0.5,  # noqa: S311 nothing is kept secret
                limit=AT_ONCE,
            )
            tried = await self._indexer.retry(tenant, [found.id for found in page.items]) if page.items else 0
            if tried == 0 or page.cursor is None:
                return
        self.wake()
