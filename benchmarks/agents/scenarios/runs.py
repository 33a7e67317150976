"""Many runs of a workflow of ten steps that do nothing: started at once, and then worked on by one process."""

import asyncio
import time
from collections import defaultdict
from typing import Any, Final

from benchmarks.agents.contenders import HivememContender, PlainNatsContender
from benchmarks.agents.lab import Lab
from benchmarks.turns import fresh, turns

STEPS: Final = 10
AT_ONCE: Final = 64
"""The runs that are worked on at a time."""
WORKFLOW: Final[dict[str, Any]] = {"steps": [{"id": f"step{number}"} for number in range(STEPS)]}


async def run(lab: Lab) -> None:
    steps: dict[str, list[float]] = defaultdict(list)
    contenders = [*lab.hivemem.values(), lab.embedded, *lab.plain.values()]
    for _, contender in turns(contenders, lab.sizes.rounds):
        work = _by_hand if isinstance(contender, PlainNatsContender) else _by_library
        steps[contender.name].append(STEPS * lab.sizes.runs / await work(contender, lab.sizes.runs))
    for name, taken in steps.items():
        lab.results.add("steps per second", name, "/s", taken)


async def _by_library(contender: HivememContender, runs: int) -> float:
    """Return the seconds from the first claim to the last step."""
    name, left, ended = fresh("flow"), runs, asyncio.Event()

    async def nothing() -> None:
        pass

    async def last() -> None:
        nonlocal left
        left -= 1
        if left == 0:
            ended.set()

    await contender.hive.workflows.apply(name, WORKFLOW)
    await _bounded(runs, lambda number: contender.hive.workflows.start(name, run_id=f"{name}-{number}"))
    handlers = {step["id"]: nothing for step in WORKFLOW["steps"]} | {f"step{STEPS - 1}": last}
    flow = contender.hive.workflows.handlers(name, handlers)
    began = time.perf_counter()
    serving = asyncio.create_task(flow.serve(concurrency=AT_ONCE))
    await ended.wait()
    seconds = time.perf_counter() - began
    serving.cancel()
    await asyncio.gather(serving, return_exceptions=True)
    return seconds


async def _by_hand(contender: PlainNatsContender, runs: int) -> float:
    name, left = fresh("flow"), runs
    await contender.ask("workflow_put", {"name": name, "definition": WORKFLOW})
    await _bounded(runs, lambda number: contender.ask("run_start", {"name": name, "run_id": f"{name}-{number}"}))
    began = time.perf_counter()

    async def work() -> None:
        nonlocal left
        while left > 0:
            step: dict[str, Any] | None = await contender.ask("step_claim", {"name": name, "wait_ms": 100})
            if step is None or step["step"] is None:
                continue
            while step is not None:
                named = {field: step[field] for field in ("run_id", "step", "attempt", "token")}
                step = (await contender.ask("step_report", {**named, "claim_next": True}))["next"]
            left -= 1

    await asyncio.gather(*(work() for _ in range(AT_ONCE)))
    return time.perf_counter() - began


async def _bounded(runs: int, start: Any) -> None:
    for first in range(0, runs, AT_ONCE):
        await asyncio.gather(*(start(number) for number in range(first, min(first + AT_ONCE, runs))))
