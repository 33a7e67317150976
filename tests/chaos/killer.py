"""Kills and pauses the processes of a fleet at random moments, and brings them back."""

import asyncio
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from hivemem_testing.process import ProcessServer

from .fleet import Fleet, ended_by_itself
from .strikes.freezes import freeze
from .strikes.kills import kill


@dataclass(frozen=True)
class Habit:
    """How one kind of victim is treated; the seconds are means."""

    alive_seconds: float
    down_seconds: float
    pauses: float = 0.0
    """The share of strikes that stop the process for a while instead of killing it."""


_SERVERS = {
    "nats-server": Habit(alive_seconds=0.4, down_seconds=0.05),
    "mongod": Habit(alive_seconds=1.0, down_seconds=0.1),
    "qdrant": Habit(alive_seconds=1.0, down_seconds=0.1),
}
_WORKER = Habit(alive_seconds=0.5, down_seconds=0.05, pauses=0.15)
_PAUSED_SECONDS = (0.05, 4.0)
"""The longest is longer than a pin lives, so that another worker takes over."""
_WAITS = 0.5
"""The share of strikes that wait until something was done since the one before, so that there is always a load."""
_DONE = 20
_POLL_SECONDS = 0.02


class Killer:
    """`done` counts what the load has done so far."""

    def __init__(self, fleet: Fleet, seed: int, stopping: Callable[[], bool], done: Callable[[], int]) -> None:
        self._fleet = fleet
        self._seed = seed
        self._stopping = stopping
        self._done = done
        self.strikes: Counter[str] = Counter()
        self.findings: list[str] = []

    async def run(self) -> None:
        await asyncio.gather(
            *(self._haunt(server, _SERVERS[server.name]) for server in self._fleet.servers),
            *(self._haunt(worker, _WORKER) for worker in self._fleet.workers),
        )

    async def _haunt(self, server: ProcessServer, habit: Habit) -> None:
        choice = random.Random(f"{self._seed}/{server.name}")
        while not self._stopping():
            done = self._done()
            await asyncio.sleep(choice.expovariate(1 / habit.alive_seconds))
            if choice.random() < _WAITS:
                await self._wait_for(done + _DONE)
            if ended_by_itself(server):
                self.findings.append(f"{server.name} ended by itself; its log: {server.log}")
            elif choice.random() < habit.pauses:
                self.strikes[f"{server.name} paused"] += 1
                await freeze(server, choice.uniform(*_PAUSED_SECONDS))
                continue
            self.strikes[f"{server.name} killed"] += 1
            self.findings += await kill(server, choice.expovariate(1 / habit.down_seconds))

    async def _wait_for(self, done: int) -> None:
        while self._done() < done and not self._stopping():  # noqa: ASYNC110  # a count, and nothing that signals it
            await asyncio.sleep(_POLL_SECONDS)
