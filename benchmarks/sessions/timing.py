"""Timing appends."""

import asyncio
import time
from collections.abc import Sequence

from benchmarks.sessions.contenders import Contender, Refused
from benchmarks.timing import SAMPLES_MAXIMUM, Load


async def append_in_turn(contender: Contender, session: str, numbers: range) -> list[float]:
    """Time one append after the other. The event is built before its clock starts."""
    samples: list[float] = []
    for number in numbers:
        event = contender.prepare(session, number)
        before = time.perf_counter()
        await contender.append(event)
        samples.append((time.perf_counter() - before) * 1_000)
    return samples


async def append_at_once(contender: Contender, sessions: Sequence[str], seconds: float, first: int) -> Load:
    """Append to all sessions at the same time, each one event after the other, until the time is over."""
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
