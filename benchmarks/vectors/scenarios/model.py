"""New memories with the offline model: the idle time of the model in the pipeline, and the delay until one is found."""

import time
from collections import defaultdict

from benchmarks.machine import at_rest
from benchmarks.timing import median, timed
from benchmarks.turns import fresh
from benchmarks.vectors.lab import HivememContender, Lab
from benchmarks.vectors.sizes import FOUND
from hivemem_vectors.embedders.offline.embedder import OfflineEmbedder

SOON = 20
WAIT_MS = 20_000


async def run(lab: Lab) -> None:
    rates: dict[str, list[float]] = defaultdict(list)
    bare = OfflineEmbedder()
    await bare.load()
    for contender in lab.hivemem.values():
        await contender.use("offline")
    await at_rest()
    for _ in range(lab.sizes.rounds):
        texts = _texts(lab)
        started = time.perf_counter()
        await bare.embed(texts)
        rates["bare"].append(len(texts) / (time.perf_counter() - started))
        for contender in lab.hivemem.values():
            rates[contender.name].append(await _indexed(contender, _texts(lab)))
    await bare.close()
    for name, taken in rates.items():
        lab.results.add("embedded per second", name, "/s", taken)
    for contender in lab.hivemem.values():
        soon = [await timed(_put_and_find, contender, text) for text in _texts(lab)[:SOON]]
        lab.results.add("found p50", contender.name, "ms", [median(soon)], soon)


def _texts(lab: Lab) -> list[str]:
    """Return new texts of the usual length."""
    name = fresh("new")
    return [f"{lab.corpus.texts[at % len(lab.corpus.texts)]} {name} {at}" for at in range(lab.sizes.embedded)]


async def _indexed(contender: HivememContender, texts: list[str]) -> float:
    before = (await contender.hive.vectors.overview()).synced
    place = f"user:{fresh('model')}"
    puts = [{"namespace": place, "key": str(at), "value": text} for at, text in enumerate(texts)]
    started = time.perf_counter()
    await contender.hive.request("memory.put_batch", {"puts": puts})
    await contender.indexed(before + len(texts))
    return len(texts) / (time.perf_counter() - started)


async def _put_and_find(contender: HivememContender, text: str) -> None:
    place = f"user:{fresh('soon')}"
    await contender.hive.memory.put(namespace=place, key="one", value=text)
    answer = await contender.hive.recall(text, namespace_prefix=place, limit=FOUND, wait_ms=WAIT_MS)
    if answer.degraded is not None or len(answer.items) != 1:
        raise RuntimeError(f"{contender.name}: {answer}")
