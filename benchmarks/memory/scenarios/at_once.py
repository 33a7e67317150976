"""Many agents at once, each with a namespace of its own: new memories, the same again, and reading them."""

import asyncio
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence

from benchmarks.memory.contenders import Contender
from benchmarks.memory.lab import Lab
from benchmarks.timing import Load, percentile
from benchmarks.turns import fresh, turns

Call = Callable[[str, int], Awaitable[object]]
"""A step of an agent in its namespace, by its number."""

WARM_UP_SECONDS = 0.3
KEPT = 20
"""The number of memories of each agent that are overwritten and read."""


async def run(lab: Lab) -> None:
    loads: dict[tuple[str, str], list[Load]] = defaultdict(list)
    for contender in lab.everybody:
        names = await _namespaces(contender, lab.sizes.agents)
        await _at_once(names, WARM_UP_SECONDS, _updates(contender))
    for _, contender in turns(lab.everybody, lab.sizes.rounds):
        names = await _namespaces(contender, lab.sizes.agents)
        for measure, call in (
            ("puts", _new(contender)),
            ("updates", _updates(contender)),
            ("gets", _gets(contender)),
        ):
            loads[measure, contender.name].append(await _at_once(names, lab.sizes.seconds, call))
    for (measure, name), taken in loads.items():
        lab.results.add(f"{measure} per second", name, "/s", [load.per_second for load in taken])
        if measure == "puts":
            lab.results.add("put at once p99", name, "ms", [percentile(load.samples, 99) for load in taken])


def _new(contender: Contender) -> Call:
    return lambda name, number: contender.put(name, f"new-{number}", number)


def _updates(contender: Contender) -> Call:
    return lambda name, number: contender.put(name, str(number % KEPT), number)


def _gets(contender: Contender) -> Call:
    return lambda name, number: contender.get(name, str(number % KEPT))


async def _namespaces(contender: Contender, count: int) -> list[str]:
    names = [fresh("many") for _ in range(count)]
    await asyncio.gather(*(contender.put_batch(name, 0, KEPT) for name in names))
    return names


async def _at_once(names: Sequence[str], seconds: float, call: Call) -> Load:
    """Run the steps of each agent one after the other, until the time is over."""
    load = Load()
    started = time.perf_counter()
    until = started + seconds

    async def agent(name: str) -> None:
        number = 0
        while time.perf_counter() < until:
            before = time.perf_counter()
            await call(name, number)
            load.samples.append((time.perf_counter() - before) * 1_000)
            number += 1

    await asyncio.gather(*map(agent, names))
    load.seconds = time.perf_counter() - started
    return load
