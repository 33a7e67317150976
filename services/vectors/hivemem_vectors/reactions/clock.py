"""What nobody asks for and no change brings about, done again and again.

Any number of workers may do it at once: what they do is a decision, or harmless twice.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

import structlog

from hivemem_contracts.errors import HiveError
from hivemem_runtime.bus.connection import Client
from hivemem_runtime.ledger.entity import AnyEntity
from hivemem_runtime.ledger.port import Ledger
from hivemem_runtime.loops import Loop

log = structlog.get_logger("hivemem.vectors")

TENANTS_AT_ONCE: Final = 8
REST: Final = 4.0
LONGEST_REST_SECONDS: Final = 5.0
"""It rests so many times as long as it worked, up to a bound: with thousands of tenants a look takes its time."""


class Clock:
    """Does a step, and once more so many seconds after it was done, or later where it took long; a step that fails
    keeps no other from its turn."""

    def __init__(self, name: str, step: Callable[[], Awaitable[None]], seconds: float) -> None:
        self._name = name
        self._step = step
        self._seconds = seconds
        self.loop = Loop(name, self._run)
        self._woken = asyncio.Event()

    async def start(self, client: Client) -> None:
        del client
        self.loop.start()

    async def stop(self) -> None:
        self._woken.set()
        await self.loop.stop()

    @property
    def is_stopping(self) -> bool:
        """A step that takes long looks here."""
        return self.loop.stopping.is_set()

    def wake(self) -> None:
        """Do the next step at once."""
        self._woken.set()

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while not self.loop.stopping.is_set():
            began = loop.time()
            try:
                await self._step()
            except HiveError as error:
                log.warning("put off", what=self._name, error=str(error))
            except Exception:
                log.exception("failed", what=self._name)
            with suppress(TimeoutError):
                async with asyncio.timeout(max(self._seconds, min(REST * (loop.time() - began), LONGEST_REST_SECONDS))):
                    await self._woken.wait()
            self._woken.clear()


async def for_each_tenant(ledger: Ledger, entity: AnyEntity, what: str, act: Callable[[str], Awaitable[None]]) -> None:
    """For those that have such things, a few at a time; one that fails keeps no other from its turn."""
    tenants = await ledger.tenants(entity)
    for start in range(0, len(tenants), TENANTS_AT_ONCE):
        some = tenants[start : start + TENANTS_AT_ONCE]
        results = await asyncio.gather(*map(act, some), return_exceptions=True)
        for tenant, result in zip(some, results, strict=True):
            if isinstance(result, HiveError):
                log.warning("put off", what=what, tenant=tenant, error=str(result))
            elif isinstance(result, Exception):
                log.error("failed", what=what, tenant=tenant, exc_info=result)
