"""One agent goes through one cycle after the other, and waits for each answer."""

from collections import defaultdict

from benchmarks.agents.contenders import cycle
from benchmarks.agents.lab import Lab
from benchmarks.timing import median, percentile, timed
from benchmarks.turns import fresh, turns

WARM_UP = 20


async def run(lab: Lab) -> None:
    count = lab.sizes.cycles
    agents: dict[str, str] = {}
    for contender in lab.everybody:
        agent = agents[contender.name] = fresh("one")
        await contender.register(agent)
        for number in range(WARM_UP):
            await cycle(contender, agent, number + 1)
    rounds: dict[str, list[list[float]]] = defaultdict(list)
    for turn, contender in turns(lab.everybody, lab.sizes.rounds):
        agent, first = agents[contender.name], WARM_UP + turn * count + 1
        rounds[contender.name].append(
            [await timed(cycle, contender, agent, number) for number in range(first, first + count)]
        )
    for name, taken in rounds.items():
        samples = [sample for one in taken for sample in one]
        lab.results.add("cycle p50", name, "ms", [median(one) for one in taken], samples)
        lab.results.add("cycle p99", name, "ms", [percentile(one, 99) for one in taken])
