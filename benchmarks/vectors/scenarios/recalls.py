"""Questions, one after the other and many at once, each embedded by the offline model."""

import asyncio
import random
import time
from collections import defaultdict

from benchmarks.machine import at_rest
from benchmarks.timing import median, percentile, timed
from benchmarks.turns import turns
from benchmarks.vectors.lab import HivememContender, Lab
from benchmarks.vectors.peers import LangGraphContender
from benchmarks.vectors.sizes import AGENTS, FOUND

PREFIX = "user:u7"
WARM_UP = 10


async def run(lab: Lab) -> None:
    chance = random.Random(5)  # noqa: S311  # which questions, the same for all
    for contender in lab.fillers:
        await contender.use("offline")
    await at_rest()
    for contender in lab.everybody:
        for question in chance.sample(lab.corpus.questions, WARM_UP):
            await contender.recall(f"Tell me: {question}", FOUND)
    everywhere: dict[str, list[list[float]]] = defaultdict(list)
    below: dict[str, list[list[float]]] = defaultdict(list)
    rates: dict[str, list[float]] = defaultdict(list)
    for number, contender in turns(lab.everybody, lab.sizes.rounds):
        questions = _questions(lab, chance, number, contender.name)
        everywhere[contender.name].append([await timed(contender.recall, one, FOUND) for one in questions])
        questions = _questions(lab, chance, number, f"{contender.name} below")
        below[contender.name].append([await timed(contender.recall, one, FOUND, PREFIX) for one in questions])
        rates[contender.name].append(
            await _at_once(contender, _questions(lab, chance, number, f"{contender.name} at once"))
        )
    for name, taken in everywhere.items():
        samples = [sample for one in taken for sample in one]
        lab.results.add("recall p50", name, "ms", [median(one) for one in taken], samples)
        lab.results.add("recall p99", name, "ms", [percentile(one, 99) for one in taken])
        lab.results.add("recall below p50", name, "ms", [median(one) for one in below[name]])
        lab.results.add("recalls per second", name, "/s", rates[name])


def _questions(lab: Lab, chance: random.Random, number: int, what: str) -> list[str]:
    """Vary each question, because repeated ones would hit the cache of embeddings."""
    # A contender that takes twenty times as long gets fewer questions.
    count = lab.sizes.recalls // (3 if what.startswith(lab.peer.name) else 1)
    chosen = chance.choices(lab.corpus.questions, k=count)
    return [f"{question} ({what}, {number}.{place})" for place, question in enumerate(chosen)]


async def _at_once(contender: HivememContender | LangGraphContender, questions: list[str]) -> float:
    left = iter(questions)

    async def agent() -> None:
        for question in left:
            await contender.recall(question, FOUND)

    started = time.perf_counter()
    await asyncio.gather(*(agent() for _ in range(AGENTS)))
    return len(questions) / (time.perf_counter() - started)
