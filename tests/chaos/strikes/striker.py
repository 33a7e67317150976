"""The interface of strikes, and the striker that carries them out while a load runs."""

import asyncio
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

HEALTHY_SECONDS: Final = 60.0
_DONE: Final = 20
"""The number of writes between two strikes, so that each strike meets a load."""
_POLL_SECONDS: Final = 0.02

Strike = Callable[[random.Random], Awaitable[str]]
"""Does harm and undoes it, with every choice from the generator. Returns its name, or an empty string if there was no
victim. Raises `StrikeFailed` if the victim does not come back."""


class StrikeFailed(Exception):
    """A finding: the victim ended by itself, or did not start again."""


def _always() -> bool:
    return True


@dataclass(frozen=True)
class Target:
    """A set of strikes that never overlap. Strikes on different targets do."""

    name: str
    strikes: Sequence[Strike]
    """The strikes to choose from; a strike listed twice is twice as likely."""
    between_seconds: float
    """The mean of the random time between two strikes."""
    healthy: Callable[[], bool] = _always
    """Has to return True before the next strike. It may block, and runs in a thread."""
    waits: float = 1.0
    """The share of strikes that wait for writes of the load."""


@dataclass
class Striker:
    """Carries out the strikes. `done` returns the number of acknowledged writes."""

    targets: Sequence[Target]
    seed: int
    stopping: Callable[[], bool]
    done: Callable[[], int]
    strikes: Counter[str] = field(default_factory=Counter[str])
    findings: list[str] = field(default_factory=list[str])
    stalled: dict[str, float] = field(default_factory=dict[str, float])
    """For each kind of strike, the longest time without an acknowledged write until the load continued."""
    struck: set[str] = field(default_factory=set[str])
    """The names of the targets that a strike has met."""

    @property
    def has_struck_each(self) -> bool:
        return len(self.struck) == len(self.targets)

    async def run(self) -> None:
        await asyncio.gather(*map(self._strike, self.targets))

    def summary(self) -> str:
        return ", ".join(
            f"{what} {count} (stall {self.stalled[what]:.1f} s)" for what, count in sorted(self.strikes.items())
        )

    async def _strike(self, target: Target) -> None:
        choice = random.Random(f"{self.seed}/{target.name}")
        while not self.stopping():
            await asyncio.sleep(choice.expovariate(1 / target.between_seconds))
            longest: list[float] = [0.0]
            watch = asyncio.create_task(self._watch(longest))
            try:
                what = await choice.choice(target.strikes)(choice)
            except StrikeFailed as error:
                self.findings.append(str(error))
                what = f"{target.name} failed"
            await self._until_healthy(target, what)
            if choice.random() < target.waits:
                await self._wait_for(self.done() + _DONE)
            watch.cancel()
            if what:
                self.struck.add(target.name)
                self.strikes[what] += 1
                self.stalled[what] = max(longest[0], self.stalled.get(what, 0.0))

    async def _until_healthy(self, target: Target, what: str) -> None:
        until = time.monotonic() + HEALTHY_SECONDS
        while not await asyncio.to_thread(target.healthy):
            if time.monotonic() > until:
                self.findings.append(f"{target.name}: not healthy {HEALTHY_SECONDS:.0f} s after: {what}")
                return
            await asyncio.sleep(_POLL_SECONDS)

    async def _wait_for(self, done: int) -> None:
        while self.done() < done and not self.stopping():  # noqa: ASYNC110  # a count, and nothing that signals it
            await asyncio.sleep(_POLL_SECONDS)

    async def _watch(self, longest: list[float]) -> None:
        last, since = self.done(), time.monotonic()
        while True:
            await asyncio.sleep(_POLL_SECONDS)
            longest[0] = max(longest[0], time.monotonic() - since)
            if self.done() != last:
                last, since = self.done(), time.monotonic()
