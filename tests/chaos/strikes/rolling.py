"""One member of a cluster at a time is killed, frozen, or told to step down; the next one once all are well again."""

import asyncio
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from hivemem_testing.process import ProcessServer

from .freezes import freeze
from .kills import kill

HEALTHY_SECONDS: Final = 60.0
_AWAY_SECONDS: Final = 1.0
_FROZEN_SECONDS: Final = (0.2, 4.0)
"""The longest is longer than an election takes."""
_BETWEEN_SECONDS: Final = 0.2
_DONE: Final = 20
"""Of the load's writes, so that each strike meets a load."""
_POLL_SECONDS: Final = 0.02

Victim = Callable[[random.Random], ProcessServer | None]
"""Chooses a member, or None while no member fits."""


@dataclass
class Rolling:
    """`healthy` blocks, and is asked in a thread. `done` counts what the load has done so far."""

    seed: int
    victim: Victim
    healthy: Callable[[], bool]
    stopping: Callable[[], bool]
    done: Callable[[], int]
    step_down: Callable[[], str] | None = None
    down_seconds: float = 0.5
    """The mean time between a kill and the start."""
    strikes: Counter[str] = field(default_factory=Counter[str])
    findings: list[str] = field(default_factory=list[str])
    stalled: dict[str, float] = field(default_factory=dict[str, float])
    """For each kind of strike the longest time in which no write was acknowledged."""
    _stall: float = 0.0

    async def run(self) -> None:
        choice = random.Random(f"{self.seed}/rolling")
        kinds: Sequence[Callable[[random.Random], Awaitable[str]]] = [self._kill, self._freeze]
        if self.step_down is not None:
            kinds = [*kinds, self._step_down]
        while not self.stopping():
            await asyncio.sleep(choice.expovariate(1 / _BETWEEN_SECONDS))
            watch = asyncio.create_task(self._watch())
            what = await choice.choice(kinds)(choice)
            await self._until_healthy(what)
            await self._wait_for(self.done() + _DONE)
            watch.cancel()
            if what:
                self.strikes[what] += 1
                self.stalled[what] = max(self._stall, self.stalled.get(what, 0.0))

    def summary(self) -> str:
        return ", ".join(f"longest stall when {what}: {seconds:.1f} s" for what, seconds in self.stalled.items())

    async def _kill(self, choice: random.Random) -> str:
        server = await asyncio.to_thread(self.victim, choice)
        if server is None:
            return ""
        self.findings += await kill(server, choice.expovariate(1 / self.down_seconds))
        return "killed"

    async def _freeze(self, choice: random.Random) -> str:
        server = await asyncio.to_thread(self.victim, choice)
        if server is None:
            return ""
        await freeze(server, choice.uniform(*_FROZEN_SECONDS))
        return "frozen"

    async def _step_down(self, choice: random.Random) -> str:
        del choice
        assert self.step_down is not None
        return "stepped down" if await asyncio.to_thread(self.step_down) else ""

    async def _until_healthy(self, what: str) -> None:
        until = time.monotonic() + HEALTHY_SECONDS
        while not await asyncio.to_thread(self.healthy):
            if time.monotonic() > until:
                self.findings.append(f"not healthy {HEALTHY_SECONDS:.0f} s after a member was {what}")
                return
            await asyncio.sleep(_POLL_SECONDS)

    async def _wait_for(self, done: int) -> None:
        while self.done() < done and not self.stopping():  # noqa: ASYNC110  # a count, and nothing that signals it
            await asyncio.sleep(_POLL_SECONDS)

    async def _watch(self) -> None:
        """Measures how long no write is acknowledged, until it is cancelled."""
        self._stall, last, since = 0.0, self.done(), time.monotonic()
        while True:
            await asyncio.sleep(_POLL_SECONDS)
            if self.done() != last:
                last, since = self.done(), time.monotonic()
            self._stall = max(self._stall, time.monotonic() - since)


def away(server: ProcessServer, seed: int, stopping: Callable[[], bool], done: Callable[[], int]) -> Rolling:
    """One server that a fleet can do without for a while: killed or frozen, for seconds each time."""
    return Rolling(seed, lambda _: server, lambda: True, stopping, done, down_seconds=_AWAY_SECONDS)
