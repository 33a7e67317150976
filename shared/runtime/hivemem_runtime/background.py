"""What a worker does on its own: parts that live as long as its connection, and timers that do a step again and again.

Any number of workers may run the same timer at once: a step is a decision of the ledger, or harmless twice.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Final

import structlog
from nats.aio.client import Client

from hivemem_contracts.errors import HiveError
from hivemem_runtime.bus.requests.discovery import Endpoint
from hivemem_runtime.ledger.entity import AnyEntity
from hivemem_runtime.ledger.port import Ledger
from hivemem_runtime.loops import Loop

log = structlog.get_logger("hivemem.background")

REST_FACTOR: Final = 4.0
"""A timer rests this many times as long as its step took, so that it takes a fifth of the store at most."""
LONGEST_REST_SECONDS: Final = 5.0
"""The rest of a slow step is bounded: with thousands of tenants a step takes its time."""
TENANTS_AT_ONCE: Final = 16

Step = Callable[[], Awaitable[None]]


class Background:
    """A part of a worker. It is started with the worker's connection after the ledger is open, and stopped before."""

    async def start(self, client: Client) -> None:
        """Begin; nothing by itself."""

    async def stop(self) -> None:
        """End what was begun; nothing by itself."""

    @property
    def endpoints(self) -> Sequence[Endpoint]:
        """The subjects that the part serves, for discovery."""
        return ()

    @property
    def trouble(self) -> str | None:
        """What keeps the part from its work, in one sentence. While there is any, the worker is not ready."""
        return None


class LoopingBackground(Background):
    """A part with a loop of its own, which `run` is until `stopping` says so."""

    def __init__(self, name: str) -> None:
        self._loop = Loop(name, self.run)

    async def start(self, client: Client) -> None:
        del client
        self._loop.start()

    async def stop(self) -> None:
        await self._loop.stop()

    @property
    def trouble(self) -> str | None:
        return self._loop.trouble

    @property
    def stopping(self) -> bool:
        """Whether the part has to end; work that takes long looks here."""
        return self._loop.stopping.is_set()

    async def run(self) -> None:
        """Work until `stopping`. A failure is logged, shows as trouble, and `run` is called again after a backoff."""
        raise AssertionError(f"{type(self).__name__} does nothing")

    async def rest(self, seconds: float) -> None:
        """Wait, no longer than until the part has to end."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._loop.stopping.wait()


class Timer(LoopingBackground):
    """Does its steps one after the other, again and again. A step that fails is logged, and the others go on."""

    def __init__(
        self,
        name: str,
        steps: Sequence[Step],
        seconds: float,
        *,
        rest_factor: float = REST_FACTOR,
        longest_rest_seconds: float = LONGEST_REST_SECONDS,
    ) -> None:
        """`seconds` is the rest between two rounds of quick steps. After slow ones it is `rest_factor` times as long as
        they took, at most `longest_rest_seconds`."""
        super().__init__(name)
        self._name = name
        self._steps = steps
        self._seconds = seconds
        self._rest_factor = rest_factor
        self._longest_rest_seconds = longest_rest_seconds
        self._woken = asyncio.Event()

    def wake(self) -> None:
        """Begin the next round at once."""
        self._woken.set()

    async def stop(self) -> None:
        self._woken.set()
        await super().stop()

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        while not self._loop.stopping.is_set():
            began = loop.time()
            for step in self._steps:
                await self._try(step)
            took = loop.time() - began
            rest = max(self._seconds, min(self._rest_factor * took, self._longest_rest_seconds))
            with suppress(TimeoutError):
                async with asyncio.timeout(rest):
                    await self._woken.wait()
            self._woken.clear()

    async def _try(self, step: Step) -> None:
        if self.stopping:
            return
        try:
            await step()
        except HiveError as error:
            log.warning("step postponed", timer=self._name, step=_name_of(step), error=str(error))
        except Exception:
            log.exception("step failed", timer=self._name, step=_name_of(step))


def _name_of(step: Step) -> str:
    return getattr(step, "__name__", repr(step))


async def for_each_tenant(
    ledger: Ledger, entity: AnyEntity, act: Callable[[str], Awaitable[None]], *, at_once: int = TENANTS_AT_ONCE
) -> None:
    """Await `act` for each tenant that ever wrote such a thing, `at_once` at a time. One that fails is logged, and the
    others go on."""
    tenants = await ledger.tenants(entity)
    for start in range(0, len(tenants), at_once):
        some = tenants[start : start + at_once]
        results = await asyncio.gather(*map(act, some), return_exceptions=True)
        for tenant, result in zip(some, results, strict=True):
            if isinstance(result, HiveError):
                log.warning("step postponed", step=act.__name__, tenant=tenant, error=str(result))
            elif isinstance(result, Exception):
                log.error("step failed", step=act.__name__, tenant=tenant, exc_info=result)
