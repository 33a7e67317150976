"""A session with a long history: appends compared with a new session, and reads of its newest events."""

from collections import defaultdict

from benchmarks.sessions.contenders import Contender
from benchmarks.sessions.lab import Lab
from benchmarks.sessions.sizes import EVENTS_READ
from benchmarks.sessions.timing import append_in_turn
from benchmarks.timing import median, timed
from benchmarks.turns import fresh, turns

FIRST_EVENTS = 100
APPENDS = 60
READS_MILLISECONDS = 1_500
"""The time limit of a turn of reads, because some take a fifth of a second each."""


async def run(lab: Lab) -> None:
    long = {contender.name: fresh("long") for contender in lab.libraries}
    await _grow(lab, long)
    await _compare(lab, long)


async def _grow(lab: Lab, long: dict[str, str]) -> None:
    """Measure at each length. It only serves the curves, so once is enough."""
    for contender in lab.libraries:
        await contender.create(long[contender.name])
    length = 0
    for wanted in lab.sizes.history:
        for contender in lab.libraries:
            session = long[contender.name]
            await contender.fill(session, length, wanted - length)
            appends = await append_in_turn(contender, session, range(wanted, wanted + APPENDS))
            reads = await _reads(contender, session, lab.sizes.reads // 2)
            lab.results.add(f"append, history of {wanted}", contender.name, "ms", [median(appends)])
            lab.results.add(f"get, history of {wanted}", contender.name, "ms", [median(reads)])
        length = wanted


async def _compare(lab: Lab, long: dict[str, str]) -> None:
    """Alternate single appends, so that other load on the machine affects both alike."""
    growth: dict[str, list[float]] = defaultdict(list)
    reading: dict[str, list[list[float]]] = defaultdict(list)
    position = lab.sizes.history[-1] + APPENDS
    for number, contender in turns(lab.libraries, lab.sizes.rounds):
        old, new = long[contender.name], fresh("new")
        await contender.create(new)
        to_old: list[float] = []
        to_new: list[float] = []
        for place in range(FIRST_EVENTS):
            at = position + number * FIRST_EVENTS + place
            to_new += await append_in_turn(contender, new, range(place, place + 1))
            to_old += await append_in_turn(contender, old, range(at, at + 1))
        growth[contender.name].append(median(to_old) / median(to_new))
        reading[contender.name].append(await _reads(contender, old, lab.sizes.reads))
    for name, ratios in growth.items():
        lab.results.add("append, long to new", name, "x", ratios)
    for name, taken in reading.items():
        samples = [sample for one in taken for sample in one]
        lab.results.add("get p50", name, "ms", [median(one) for one in taken], samples)


async def _reads(contender: Contender, session: str, count: int) -> list[float]:
    found = await contender.newest(session, EVENTS_READ)
    if found != EVENTS_READ:
        raise RuntimeError(f"{contender.name} answered {found} events instead of {EVENTS_READ}")
    samples: list[float] = []
    while len(samples) < count and sum(samples) < READS_MILLISECONDS:
        samples.append(await timed(contender.newest, session, EVENTS_READ))
    return samples
