"""One agent appends one event after the other and waits for each answer."""

from collections import defaultdict

from benchmarks.sessions.lab import Lab
from benchmarks.sessions.timing import append_in_turn
from benchmarks.timing import median, percentile
from benchmarks.turns import fresh, turns

WARM_UP = 30


async def run(lab: Lab) -> None:
    count = lab.sizes.appends
    sessions: dict[str, str] = {}
    for contender in lab.everybody:
        session = sessions[contender.name] = fresh("one")
        await contender.create(session)
        await append_in_turn(contender, session, range(WARM_UP))
    rounds: dict[str, list[list[float]]] = defaultdict(list)
    for number, contender in turns(lab.everybody, lab.sizes.rounds):
        first = WARM_UP + number * count
        rounds[contender.name].append(
            await append_in_turn(contender, sessions[contender.name], range(first, first + count))
        )
    for name, taken in rounds.items():
        samples = [sample for one in taken for sample in one]
        lab.results.add("append p50", name, "ms", [median(one) for one in taken], samples)
        lab.results.add("append p99", name, "ms", [percentile(one, 99) for one in taken])
