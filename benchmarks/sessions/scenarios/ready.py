"""From the start of `hivemem up` to its word that everything takes requests."""

import asyncio

from benchmarks.fleets import Embedded
from benchmarks.sessions.lab import Lab


async def run(lab: Lab) -> None:
    """On one folder: the first start, which creates everything, warms up and does not count."""
    seconds: list[float] = []
    for _ in range(1 + lab.sizes.starts):
        embedded = await asyncio.to_thread(Embedded, lab.directory / "started")
        await asyncio.to_thread(embedded.stop)
        seconds.append(embedded.seconds)
    lab.results.add("ready", "sqlite", "s", seconds[1:])
