"""A page by prefix, among very many memories."""

import random
import time
from collections import defaultdict

from benchmarks.memory.lab import Lab
from benchmarks.memory.scenarios.batches import put_in_batches
from benchmarks.memory.sizes import BATCH, LISTED
from benchmarks.timing import median, timed
from benchmarks.turns import fresh, turns

CALLS = 60


async def run(lab: Lab) -> None:
    """Fill the stores, and note the rate of writes while they grow."""
    chance = random.Random(7)  # noqa: S311  # which namespaces are listed, the same for all
    name, batches = fresh("listed"), lab.sizes.entries // BATCH
    for contender in lab.fastest_ways:
        started = time.perf_counter()
        rate = await put_in_batches(contender, name, batches)
        text = f"{contender.name}: {lab.sizes.entries:,} memories put in {time.perf_counter() - started:.0f} s"
        lab.results.notes.append(f"{text}, {rate:,.0f}/s")
    rounds: dict[str, list[list[float]]] = defaultdict(list)
    for _, contender in turns(lab.libraries, lab.sizes.rounds):
        chosen = [f"{name}-{chance.randrange(batches)}" for _ in range(CALLS)]
        if await contender.list(chosen[0], LISTED) != LISTED:
            raise RuntimeError(f"{contender.name}: the page is not full")
        rounds[contender.name].append([await timed(contender.list, one, LISTED) for one in chosen])
    for contender_name, taken in rounds.items():
        samples = [sample for one in taken for sample in one]
        lab.results.add("list p50", contender_name, "ms", [median(one) for one in taken], samples)
