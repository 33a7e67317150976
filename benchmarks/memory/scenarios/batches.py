"""New memories in batches of a thousand, a few batches under way at once."""

import asyncio
import time
from collections import defaultdict

from benchmarks.memory.contenders import Contender
from benchmarks.memory.lab import Lab
from benchmarks.memory.sizes import BATCH, BATCHES_AT_ONCE
from benchmarks.turns import fresh, turns


async def run(lab: Lab) -> None:
    rates: dict[str, list[float]] = defaultdict(list)
    for contender in lab.everybody:
        await contender.put_batch(fresh("warm"), 0, BATCH)
    for _, contender in turns(lab.everybody, lab.sizes.rounds):
        rates[contender.name].append(await put_in_batches(contender, fresh("batch"), lab.sizes.batches))
    for name, taken in rates.items():
        lab.results.add("batched per second", name, "/s", taken)


async def put_in_batches(contender: Contender, name: str, batches: int) -> float:
    """Return memories a second, each batch in a namespace of its own."""
    free = asyncio.Semaphore(BATCHES_AT_ONCE)

    async def put(number: int) -> None:
        async with free:
            await contender.put_batch(f"{name}-{number}", 0, BATCH)

    started = time.perf_counter()
    await asyncio.gather(*map(put, range(batches)))
    return batches * BATCH / (time.perf_counter() - started)
