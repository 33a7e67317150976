"""Durable commands through one worker process: a waiting backlog, and publishing and committing at the same time."""

import time
from collections import defaultdict

from nats.aio.client import Client

from benchmarks.fleets import Fleet, Store
from benchmarks.sessions.contenders import HivememContender
from benchmarks.sessions.event import AGENT, KIND, content, delta
from benchmarks.sessions.lab import Lab
from benchmarks.sessions.sizes import ROUTES
from benchmarks.sessions.streams import drained, last_change, moment_of, publish_backlog
from benchmarks.turns import fresh, turns
from hivemem import NewEvent
from hivemem_runtime.bus.connection import connect


async def run(lab: Lab) -> None:
    found: dict[tuple[str, Store], list[float]] = defaultdict(list)
    clients = {store: await connect(fleet.url, "benchmark") for store, fleet in lab.fleets.items()}
    try:
        for _, store in turns(list(lab.fleets), lab.sizes.backlogs):
            contender, client = lab.hivemem[store], clients[store]
            published, committed, announced = await carry_out(lab.sizes.backlog, contender, lab.fleets[store], client)
            found["published per second", store].append(published)
            found["durable per second", store].append(committed)
            found["durable, announced per second", store].append(announced)
            found["durable, published meanwhile", store].append(await _stream(lab, contender, client))
    finally:
        for client in clients.values():
            await client.close()
    for (measure, store), rates in found.items():
        lab.results.add(measure, store, "/s", rates)


async def new_sessions(contender: HivememContender) -> list[str]:
    sessions = [fresh("durable") for _ in range(ROUTES)]
    for session in sessions:
        await contender.create(session)
    return sessions


async def carry_out(
    count: int, contender: HivememContender, fleet: Fleet, client: Client
) -> tuple[float, float, float]:
    """Commands a second: published without a worker; committed and announced by one that is started then."""
    sessions = await new_sessions(contender)
    fleet.worker.stop()
    before = await last_change(client)
    started = time.perf_counter()
    await publish_backlog(client, sessions, count)
    published = count / (time.perf_counter() - started)
    fleet.worker.start()
    await drained(client, before, count)
    first, last = await moment_of(client, before + 1), await moment_of(client, await last_change(client))
    return published, count / (last.committed - first.committed), count / (last.announced - first.announced)


async def _stream(lab: Lab, contender: HivememContender, client: Client) -> float:
    """Measure commands a second, from the first published to the last committed one."""
    count = lab.sizes.stream
    sessions = await new_sessions(contender)
    before = await last_change(client)
    hive, event = contender.hive, NewEvent(type=KIND, author=AGENT, content=content())
    started = time.time()
    async with hive.pipeline() as pipeline:
        for number in range(count):
            session = sessions[number % ROUTES]
            await pipeline.publish(hive.sessions.append, session_id=session, event=event, state_delta=delta(number))
    await drained(client, before, count)
    last = await moment_of(client, await last_change(client))
    return count / (last.committed - started)
