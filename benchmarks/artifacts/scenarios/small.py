"""Many small files, each with bytes of its own, many at once."""

import asyncio
import os
import time
from collections import defaultdict

import hivemem
from benchmarks.artifacts.lab import Lab
from benchmarks.artifacts.sizes import AT_ONCE, SMALL_BYTES
from benchmarks.fleets import Store
from benchmarks.turns import fresh, turns

WARM_UP = 100


async def run(lab: Lab) -> None:
    rates: dict[Store, list[float]] = defaultdict(list)
    for hive in lab.hivemem.values():
        await _save(hive, WARM_UP)
    for _, (store, hive) in turns(list(lab.hivemem.items()), lab.sizes.rounds):
        rates[store].append(await _save(hive, lab.sizes.small_files))
    for store, taken in rates.items():
        lab.results.add("small files", store, "/s", taken)


async def _save(hive: hivemem.Hive, count: int) -> float:
    """Return files a second, each agent in a session of its own."""
    data = [os.urandom(SMALL_BYTES) for _ in range(count)]

    async def agent(first: int) -> None:
        session = fresh("small")
        for number in range(first, count, AT_ONCE):
            await hive.artifacts.upload(session, f"file-{number}", data[number])

    started = time.perf_counter()
    await asyncio.gather(*map(agent, range(AT_ONCE)))
    return count / (time.perf_counter() - started)
