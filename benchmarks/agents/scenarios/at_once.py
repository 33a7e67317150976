"""Many agents at once, each goes through one cycle after the other."""

import asyncio
import time
from collections import defaultdict

from benchmarks.agents.contenders import Contender, cycle
from benchmarks.agents.lab import Lab
from benchmarks.timing import Load, percentile, timed
from benchmarks.turns import fresh, turns

WARM_UP_SECONDS = 0.3


async def run(lab: Lab) -> None:
    loads: dict[str, list[Load]] = defaultdict(list)
    for contender in lab.everybody:
        await _at_once(contender, lab.sizes.agents, WARM_UP_SECONDS)
    for _, contender in turns(lab.everybody, lab.sizes.rounds):
        loads[contender.name].append(await _at_once(contender, lab.sizes.agents, lab.sizes.seconds))
    for name, taken in loads.items():
        lab.results.add("cycles per second", name, "/s", [load.per_second for load in taken])
        lab.results.add("cycle at once p99", name, "ms", [percentile(load.samples, 99) for load in taken])


async def _at_once(contender: Contender, count: int, seconds: float) -> Load:
    """Run new agents, until the time is over."""
    agents = [fresh("many") for _ in range(count)]
    await asyncio.gather(*map(contender.register, agents))
    load = Load()
    started = time.perf_counter()
    until = started + seconds

    async def go_through_cycles(agent: str) -> None:
        number = 1
        while time.perf_counter() < until:
            load.samples.append(await timed(cycle, contender, agent, number))
            number += 1

    await asyncio.gather(*map(go_through_cycles, agents))
    load.seconds = time.perf_counter() - started
    return load
