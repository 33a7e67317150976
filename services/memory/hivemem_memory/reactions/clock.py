"""What nobody asks for and no change brings about: time is over, or somebody left in the middle.

Any number of workers may do it at once: each write looks again at what it finds.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

import structlog

from hivemem_contracts.errors import HiveError
from hivemem_memory.decisions.expiring import expire_memory
from hivemem_memory.endpoints.erasing import Eraser
from hivemem_memory.endpoints.rendering import microseconds
from hivemem_memory.entities.answers import ANSWER
from hivemem_memory.entities.erasures import ERASURE
from hivemem_memory.entities.memories import MEMORY
from hivemem_runtime.bus.connection import Client
from hivemem_runtime.ledger.entity import AnyEntity
from hivemem_runtime.ledger.port import Ledger, Write
from hivemem_runtime.loops import Loop

log = structlog.get_logger("hivemem.memory")

SECONDS: Final = 1.0
REST: Final = 4.0
LONGEST_REST_SECONDS: Final = 5.0
"""It rests so many times as long as it worked, up to a bound: with thousands of tenants a look takes its time."""

FORGET_SECONDS: Final = 60.0
AT_ONCE: Final = 200
"""Of one kind and tenant, each time it looks."""
TENANTS_AT_ONCE: Final = 16
ACTOR: Final = "hivemem"


class Clock:
    def __init__(self, ledger: Ledger, eraser: Eraser, request_memory_seconds: float) -> None:
        self._ledger = ledger
        self._eraser = eraser
        self._memory = int(request_memory_seconds * 1_000_000)
        self.loop = Loop("memory-clock", self._run)

    async def start(self, client: Client) -> None:
        self.loop.start()

    async def stop(self) -> None:
        await self.loop.stop()

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        forgotten = loop.time()
        while not self.loop.stopping.is_set():
            began = loop.time()
            await self._everywhere(MEMORY, self.expire)
            await self._everywhere(ERASURE, self.resume)
            if loop.time() - forgotten > FORGET_SECONDS:
                forgotten = loop.time()
                await self._everywhere(ANSWER, self.forget)
            with suppress(TimeoutError):
                async with asyncio.timeout(max(SECONDS, min(REST * (loop.time() - began), LONGEST_REST_SECONDS))):
                    await self.loop.stopping.wait()

    async def _everywhere(self, entity: AnyEntity, act: Callable[[str], Awaitable[None]]) -> None:
        """For each tenant that has such things, a few at a time; one that fails keeps no other from its turn."""
        try:
            tenants = await self._ledger.tenants(entity)
        except HiveError as error:
            log.warning("the clock could not look", what=entity.name, error=str(error))
            return
        except Exception:
            log.exception("the clock could not look", what=entity.name)
            return
        for start in range(0, len(tenants), TENANTS_AT_ONCE):
            some = tenants[start : start + TENANTS_AT_ONCE]
            results = await asyncio.gather(*map(act, some), return_exceptions=True)
            for tenant, result in zip(some, results, strict=True):
                if isinstance(result, HiveError):
                    log.warning("the clock could not act", what=entity.name, tenant=tenant, error=str(result))
                elif isinstance(result, Exception):
                    log.error("the clock failed", what=entity.name, tenant=tenant, exc_info=result)

    async def expire(self, tenant: str) -> None:
        """Delete what has expired; what reads it treats it as deleted already."""
        due = microseconds() + 1
        cursor: str | None = None
        while True:
            page = await self._ledger.covered(
                MEMORY, tenant, "expiry", equals={}, high=due, cursor=cursor, limit=AT_ONCE
            )
            await asyncio.gather(*(self._ledger.commit(_expiry(tenant, found.id)) for found in page.items))
            cursor = page.cursor
            if cursor is None:
                return

    async def resume(self, tenant: str) -> None:
        """Go on with erasures that somebody left in the middle."""
        page = await self._ledger.find(ERASURE, tenant, "running", equals={}, limit=AT_ONCE)
        for head in page.items:
            self._eraser.resume(tenant, head.id, head)

    async def forget(self, tenant: str) -> None:
        """Answers are kept for as long as their request may come again."""
        before = microseconds() - self._memory
        page = await self._ledger.covered(ANSWER, tenant, "age", equals={}, high=before, limit=AT_ONCE)
        await asyncio.gather(*(self._eraser.forget(ANSWER, tenant, found.id) for found in page.items))


def _expiry(tenant: str, place: str) -> Write:
    return Write(tenant, ACTOR, MEMORY, place, lambda heads, now: expire_memory(heads, place, now))
