"""The worker's timer. It deletes expired memories, resumes abandoned erasures and removes old answers."""

import asyncio
from typing import Final

from hivemem_memory.decisions.expiry import expire_memory
from hivemem_memory.endpoints.erasures import Eraser
from hivemem_memory.entities.answers import ANSWER
from hivemem_memory.entities.erasures import ERASURE
from hivemem_memory.entities.memories import MEMORY
from hivemem_runtime.background import Timer, for_each_tenant
from hivemem_runtime.clock import elapsed_seconds, now_microseconds
from hivemem_runtime.ledger.pages import pages
from hivemem_runtime.ledger.port import Ledger, Write, system_write

SECONDS: Final = 1.0
FORGET_SECONDS: Final = 60.0
AT_ONCE: Final = 200
"""The maximum number of entities per kind and tenant in one round."""


class Upkeep(Timer):
    def __init__(self, ledger: Ledger, eraser: Eraser, request_memory_seconds: float) -> None:
        super().__init__("memory-upkeep", (self.expire_all, self.resume_all, self.forget_all), SECONDS)
        self._ledger = ledger
        self._eraser = eraser
        self._memory = int(request_memory_seconds * 1_000_000)
        self._forgotten = elapsed_seconds()

    async def expire_all(self) -> None:
        await for_each_tenant(self._ledger, MEMORY, self.expire)

    async def resume_all(self) -> None:
        await for_each_tenant(self._ledger, ERASURE, self.resume)

    async def forget_all(self) -> None:
        if elapsed_seconds() - self._forgotten > FORGET_SECONDS:
            self._forgotten = elapsed_seconds()
            await for_each_tenant(self._ledger, ANSWER, self.forget)

    async def expire(self, tenant: str) -> None:
        """Delete expired memories. Reads treat them as deleted already."""
        due = now_microseconds() + 1
        async for found in pages(
            lambda cursor: self._ledger.covered(
                MEMORY, tenant, "expiry", equals={}, high=due, cursor=cursor, limit=AT_ONCE
            )
        ):
            await asyncio.gather(*(self._ledger.commit(_expiry(tenant, memory.id)) for memory in found))

    async def resume(self, tenant: str) -> None:
        """Resume erasures whose worker ended before they were done."""
        page = await self._ledger.find(ERASURE, tenant, "running", equals={}, limit=AT_ONCE)
        for head in page.items:
            self._eraser.resume(tenant, head.id, head)
        await self._eraser.settle(tenant, page.items)

    async def forget(self, tenant: str) -> None:
        """Remove answers whose request can no longer be retried."""
        before = now_microseconds() - self._memory
        page = await self._ledger.covered(ANSWER, tenant, "age", equals={}, high=before, limit=AT_ONCE)
        await asyncio.gather(*(self._eraser.forget(ANSWER, tenant, found.id) for found in page.items))


def _expiry(tenant: str, place: str) -> Write:
    return system_write(tenant, MEMORY, place, lambda heads, now: expire_memory(heads, place, now))
