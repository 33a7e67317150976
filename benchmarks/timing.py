"""Times calls, and summarises many timings."""

import statistics
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import ParamSpec

P = ParamSpec("P")
SAMPLES_MAXIMUM = 1_000_000


def percentile(samples: Sequence[float], part: float) -> float:
    ordered = sorted(samples)
    return ordered[min(len(ordered) - 1, int(len(ordered) * part / 100))]


def median(samples: Sequence[float]) -> float:
    return statistics.median(samples)


@dataclass
class Load:
    """The result of many concurrent callers. Times are in milliseconds."""

    seconds: float = 0.0
    samples: list[float] = field(default_factory=list[float])
    refused: int = 0

    @property
    def per_second(self) -> float:
        return len(self.samples) / self.seconds


async def timed(call: Callable[P, Awaitable[object]], *args: P.args, **fields: P.kwargs) -> float:
    """Return the time of a call in milliseconds."""
    before = time.perf_counter()
    await call(*args, **fields)
    return (time.perf_counter() - before) * 1_000
