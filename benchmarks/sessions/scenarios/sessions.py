"""Many sessions at once, each with an agent that appends one event after the other."""

from collections import defaultdict

from benchmarks.sessions.contenders import Contender
from benchmarks.sessions.lab import Lab
from benchmarks.sessions.timing import append_at_once
from benchmarks.timing import Load, percentile
from benchmarks.turns import fresh, turns

WARM_UP_SECONDS = 0.3


async def run(lab: Lab) -> None:
    contenders: list[Contender] = lab.everybody
    sessions: dict[str, list[str]] = {}
    for contender in contenders:
        mine = sessions[contender.name] = [fresh("many") for _ in range(lab.sizes.sessions)]
        for session in mine:
            await contender.create(session)
        await append_at_once(contender, mine, WARM_UP_SECONDS, 0)
    rounds: dict[str, list[Load]] = defaultdict(list)
    for number, contender in turns(contenders, lab.sizes.rounds):
        load = await append_at_once(contender, sessions[contender.name], lab.sizes.seconds, (number + 1) * 100_000)
        rounds[contender.name].append(load)
    for name, loads in rounds.items():
        samples = [sample for load in loads for sample in load.samples]
        lab.results.add("appends per second", name, "/s", [load.per_second for load in loads])
        lab.results.add("append at once p50", name, "ms", [percentile(load.samples, 50) for load in loads], samples)
        lab.results.add("append at once p99", name, "ms", [percentile(load.samples, 99) for load in loads])
        refused = sum(load.refused for load in loads)
        if refused:
            lab.results.notes.append(f"{name}: {refused} appends of {lab.sizes.sessions} sessions at once failed")
