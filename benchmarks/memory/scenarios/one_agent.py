"""One agent puts one memory after the other, then reads them, and waits for each answer."""

from collections import defaultdict

from benchmarks.memory.lab import Lab
from benchmarks.timing import median, percentile, timed
from benchmarks.turns import fresh, turns

WARM_UP = 30


async def run(lab: Lab) -> None:
    count = lab.sizes.calls
    puts: dict[str, list[list[float]]] = defaultdict(list)
    gets: dict[str, list[list[float]]] = defaultdict(list)
    for contender in lab.everybody:
        warm = fresh("warm")
        for number in range(WARM_UP):
            await contender.put(warm, str(number), number)
            await contender.get(warm, str(number))
    for _, contender in turns(lab.everybody, lab.sizes.rounds):
        name = fresh("one")
        puts[contender.name].append([await timed(contender.put, name, str(n), n) for n in range(count)])
        gets[contender.name].append([await timed(contender.get, name, str(n)) for n in range(count)])
    for what, rounds in (("put", puts), ("get", gets)):
        for name, taken in rounds.items():
            samples = [sample for one in taken for sample in one]
            lab.results.add(f"{what} p50", name, "ms", [median(one) for one in taken], samples)
            lab.results.add(f"{what} p99", name, "ms", [percentile(one, 99) for one in taken])
