"""Operations that LangGraph's store lacks: history, reads as of a moment, snapshots."""

from collections import defaultdict
from datetime import datetime

from benchmarks.fleets import Store
from benchmarks.memory.contenders import HivememContender
from benchmarks.memory.item import namespace, put_body
from benchmarks.memory.lab import Lab
from benchmarks.memory.sizes import BATCH, HISTORY
from benchmarks.timing import median, timed
from benchmarks.turns import fresh, turns

KEY = "key"
CALLS = 60
SNAPSHOTS = 3


async def run(lab: Lab) -> None:
    samples: dict[tuple[str, Store], list[list[float]]] = defaultdict(list)
    ready = {store: await _prepare(contender, lab) for store, contender in lab.hivemem.items()}
    for _, (store, contender) in turns(list(lab.hivemem.items()), lab.sizes.rounds):
        few, many, moments, whole = ready[store]
        samples["history p50", store].append([await timed(contender.history, few, KEY, HISTORY) for _ in range(CALLS)])
        samples["get as of p50", store].append([await timed(contender.get_as_of, many, KEY, at) for at in moments])
        samples["snapshot", store].append([await timed(contender.snapshot, whole) for _ in range(SNAPSHOTS)])
    for (measure, store), taken in samples.items():
        every = [sample for one in taken for sample in one]
        lab.results.add(measure, store, "ms", [median(one) for one in taken], every)


async def _prepare(contender: HivememContender, lab: Lab) -> tuple[str, str, list[datetime], str]:
    """Write a memory with few versions, one with many and moments in between, and a namespace with many memories."""
    few, many, whole = fresh("few"), fresh("versions"), fresh("snapshot")
    for number in range(HISTORY):
        await contender.put(few, KEY, number)
    for start in range(0, lab.sizes.versions, BATCH):
        puts = [put_body(many, KEY, number) for number in range(start, start + BATCH)]
        await contender.hive.request("memory.put_batch", {"puts": puts})
    for start in range(0, lab.sizes.snapshot, BATCH):
        await contender.put_batch(whole, start, BATCH)
    step = max(1, lab.sizes.versions // CALLS)
    moments = [await _moment(contender, many, version) for version in range(1, lab.sizes.versions, step)]
    if await contender.snapshot(whole) != lab.sizes.snapshot:
        raise RuntimeError(f"{contender.name}: the snapshot is not whole")
    return few, many, moments[:CALLS], whole


async def _moment(contender: HivememContender, name: str, version: int) -> datetime:
    """Return the commit time of a version; a read as of that time must find it."""
    found = await contender.hive.memory.get(namespace=namespace(name), key=KEY, version=version)
    if await contender.get_as_of(name, KEY, found.updated_at) != version:
        raise RuntimeError(f"{contender.name}: another version than {version} at its own time")
    return found.updated_at
