"""Timing calls, and what is said of many timings."""

import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from benchmarks.contenders import Contender, Refused

SAMPLES_MAXIMUM = 1_000_000


def percentile(samples: Sequence[float], part: float) -> float:
    ordered = sorted(samples)
    return ordered[min(len(ordered) - 1, int(len(ordered) * part / 100))]


def median(samples: Sequence[float]) -> float:
    return statistics.median(samples)


@dataclass
class Load:
    """What several sessions did at once. Times in milliseconds."""

    seconds: float = 0.0
    samples: list[float] = field(default_factory=list[float])
    refused: int = 0

    @property
    def per_second(self) -> float:
        return len(self.samples) / self.seconds


async def timed(call: Callable[[], Awaitable[object]]) -> float:
    """Milliseconds."""
    before = time.perf_counter()
    await call()
    return (time.perf_counter() - before) * 1_000


async def append_in_turn(contender: Contender, session: str, numbers: range) -> list[float]:
    """One append after the other. What an append needs is built before its clock starts."""
    samples: list[float] = []
    for number in numbers:
        event = contender.prepare(session, number)
        before = time.perf_counter()
        await contender.append(event)
        samples.append((time.perf_counter() - before) * 1_000)
    return samples


async def append_at_once(contender: Contender, sessions: Sequence[str], seconds: float, first: int) -> Load:
    """All sessions append at the same time, each one event after the other, until the time is over."""
    load = Load()
    started = time.perf_counter()
    until = started + seconds

    async def write(session: str) -> None:
        number = first
        while time.perf_counter() < until and len(load.samples) < SAMPLES_MAXIMUM:
            event = contender.prepare(session, number)
            before = time.perf_counter()
            try:
                await contender.append(event)
            except Refused:
                load.refused += 1
            else:
                load.samples.append((time.perf_counter() - before) * 1_000)
            number += 1

    await asyncio.gather(*map(write, sessions))
    load.seconds = time.perf_counter() - started
    return load
