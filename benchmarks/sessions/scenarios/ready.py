"""The time from the start of `hivemem up` to its ready line."""

import asyncio

from benchmarks.fleets import Embedded
from benchmarks.sessions.lab import Lab


async def run(lab: Lab) -> None:
    """Start repeatedly on one folder. The first start creates the data and does not count."""
    seconds: list[float] = []
    for _ in range(1 + lab.sizes.starts):
        embedded = await asyncio.to_thread(Embedded, lab.directory / "started")
        await asyncio.to_thread(embedded.stop)
        seconds.append(embedded.seconds)
    lab.results.add("ready", "sqlite", "s", seconds[1:])
