"""Indexing of a backlog that waited while no vectors worker ran, with a prepared embedder."""

import time

from benchmarks.machine import at_rest
from benchmarks.vectors.lab import Lab
from benchmarks.vectors.sizes import BATCH


async def run(lab: Lab) -> None:
    """Write the memories that all other scenarios search, once."""
    count = lab.sizes.memories
    batches = [list(range(first, min(first + BATCH, count))) for first in range(0, count, BATCH)]
    for contender in lab.fillers:
        await contender.use(None)
        for batch in batches:
            await contender.put_batch(lab.corpus, batch)
        # The memory worker finishes its background work before the clock runs.
        await at_rest()
        started = time.perf_counter()
        await contender.use("given")
        await contender.indexed(count)
        lab.results.add("indexed per second", contender.name, "/s", [count / (time.perf_counter() - started)])
        # The graphs must not be load for others; questions meanwhile are answered without them.
        lab.results.notes.append(
            f"{contender.name}: the graphs were ready {await at_rest():.0f} s after the last memory"
        )
    started = time.perf_counter()
    for batch in batches:
        await lab.peer.put_batch(lab.corpus, batch)
    lab.results.add("indexed per second", lab.peer.name, "/s", [count / (time.perf_counter() - started)])
