"""One agent that puts one memory after the other, while a vectors worker runs and while none does."""

from benchmarks.machine import at_rest
from benchmarks.timing import median, timed
from benchmarks.turns import fresh
from benchmarks.vectors.lab import HivememContender, Lab

ROUNDS = 3
WARM_UP = 20


async def run(lab: Lab) -> None:
    for contender in lab.hivemem.values():
        off: list[list[float]] = []
        on: list[list[float]] = []
        for _ in range(ROUNDS):
            await contender.use(None)
            off.append(await _puts(lab, contender))
            await contender.use("offline")
            # The start of a worker, such as opening a large index, does not count as indexing.
            await at_rest()
            on.append(await _puts(lab, contender))
            if (await contender.hive.vectors.overview()).waiting == 0:
                raise RuntimeError(f"{contender.name}: all was indexed before the last put")
        for name, taken in (("off", off), ("on", on)):
            samples = [sample for one in taken for sample in one]
            lab.results.add(f"put p50 {name}", contender.name, "ms", [median(one) for one in taken], samples)
        await contender.use(None)


async def _puts(lab: Lab, contender: HivememContender) -> list[float]:
    place, put = f"user:{fresh('put')}", contender.hive.memory.put
    texts = lab.corpus.texts
    taken = [
        await timed(put, namespace=place, key=str(at), value=f"{texts[at % len(texts)]} {place} {at}")
        for at in range(WARM_UP + lab.sizes.puts)
    ]
    return taken[WARM_UP:]
