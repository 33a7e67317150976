"""A program that was killed while its agent acted: from its next start until the agent's next step."""

import asyncio
import sys
import time
from collections import defaultdict
from pathlib import Path
from typing import Final

from benchmarks.agents.lab import Lab
from benchmarks.timing import median
from benchmarks.turns import fresh, turns

PROGRAM: Final = Path(__file__).parents[1] / "program.py"
READY_SECONDS: Final = 30.0


async def run(lab: Lab) -> None:
    own: dict[str, list[float]] = defaultdict(list)
    started: dict[str, list[float]] = defaultdict(list)
    for _, (name, place) in turns(list(lab.places.items()), lab.sizes.rounds):
        taken = [await _killed_and_resumed(name, place) for _ in range(lab.sizes.kills)]
        own[name].append(median([one for one, _ in taken]))
        started[name].append(median([whole for _, whole in taken]))
    for name in own:
        lab.results.add("resume", name, "ms", own[name])
        lab.results.add("resume, started", name, "ms", started[name])


async def _killed_and_resumed(name: str, place: str) -> tuple[float, float]:
    """Return the milliseconds that the second program took after its imports, and those from its start to its line."""
    agent = fresh("killed")
    program = [sys.executable, str(PROGRAM), name, place, agent]
    first = await asyncio.create_subprocess_exec(*program, "act", stdout=asyncio.subprocess.PIPE)
    assert first.stdout is not None
    try:
        async with asyncio.timeout(READY_SECONDS):
            if await first.stdout.readline() != b"acting\n":
                raise RuntimeError(f"{name}: the program ended before its agent acted")
    finally:
        first.kill()
        await first.wait()
    before = time.perf_counter()
    second = await asyncio.create_subprocess_exec(*program, "resume", stdout=asyncio.subprocess.PIPE)
    assert second.stdout is not None
    try:
        async with asyncio.timeout(READY_SECONDS):
            line = await second.stdout.readline()
            whole = (time.perf_counter() - before) * 1_000
            await second.wait()
    finally:
        if second.returncode is None:
            second.kill()
            await second.wait()
    return float(line), whole
