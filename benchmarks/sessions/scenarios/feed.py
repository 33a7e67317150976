"""The time from the commit to a subscriber in another process, at a moderate rate."""

import asyncio
import json
import sys
from collections import defaultdict

from benchmarks.fleets import Fleet, Store
from benchmarks.sessions.contenders import HivememContender
from benchmarks.sessions.lab import Lab
from benchmarks.sessions.sizes import CHANGES_A_SECOND
from benchmarks.timing import median, percentile
from benchmarks.turns import fresh, turns

READY_SECONDS = 20.0
WARM_UP = 20


async def run(lab: Lab) -> None:
    rounds: dict[Store, list[list[float]]] = defaultdict(list)
    for _, store in turns(list(lab.fleets), lab.sizes.rounds):
        rounds[store].append(await _listen(lab.hivemem[store], lab.fleets[store], lab.sizes.changes))
    for store, taken in rounds.items():
        samples = [sample for one in taken for sample in one]
        lab.results.add("commit to subscriber p50", store, "ms", [median(one) for one in taken], samples)
        lab.results.add("commit to subscriber p99", store, "ms", [percentile(one, 99) for one in taken])


async def _listen(contender: HivememContender, fleet: Fleet, count: int) -> list[float]:
    session = fresh("feed")
    await contender.create(session)
    command = [sys.executable, "-m", "benchmarks.sessions.subscriber", fleet.url, session, str(WARM_UP + count)]
    listener = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    assert listener.stdout is not None
    try:
        async with asyncio.timeout(READY_SECONDS):
            await listener.stdout.readline()
        await _append_steadily(contender, session, WARM_UP + count)
        async with asyncio.timeout(READY_SECONDS):
            late: list[float] = json.loads(await listener.stdout.readline())
            await listener.wait()
    finally:
        if listener.returncode is None:
            listener.kill()
            await listener.wait()
    return late[WARM_UP:]


async def _append_steadily(contender: HivememContender, session: str, count: int) -> None:
    """Append at a fixed rate, independent of the time of each append."""
    loop = asyncio.get_running_loop()
    started = loop.time()
    under_way: set[asyncio.Task[None]] = set()
    for number in range(count):
        await asyncio.sleep(max(0.0, started + number / CHANGES_A_SECOND - loop.time()))
        under_way.add(asyncio.create_task(contender.append(contender.prepare(session, number))))
    await asyncio.gather(*under_way)
