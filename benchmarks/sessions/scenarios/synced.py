"""The cost of a sync before each acknowledgement of NATS: announcing a backlog, and telling a lost feed again."""

from collections import defaultdict
from contextlib import AsyncExitStack

from nats.aio.client import Client

from benchmarks.fleets import Fleet, Store, running_fleet
from benchmarks.sessions.contenders import HivememContender
from benchmarks.sessions.lab import Lab
from benchmarks.sessions.scenarios.durable import carry_out
from benchmarks.sessions.streams import drained, last_change, moment_of
from benchmarks.turns import turns
from hivemem_contracts.streams import CHANGES
from hivemem_runtime.bus.connection import connect
from hivemem_runtime.bus.jetstream import ask


async def run(lab: Lab) -> None:
    for store in lab.fleets:
        await _compare(lab, store)


async def _compare(lab: Lab, store: Store) -> None:
    """A fleet of its own on each kind of server, so that both have the same changes to tell."""
    found: dict[tuple[str, bool], list[float]] = defaultdict(list)
    async with AsyncExitStack() as stack:
        fleets: dict[bool, tuple[Fleet, Client, HivememContender]] = {}
        for synced in (True, False):
            directory = lab.directory / f"{store}-{'synced' if synced else 'not-synced'}"
            interval = "always" if synced else None
            fleet = stack.enter_context(running_fleet(directory, store, "sessions", sync_interval=interval))
            client = await connect(fleet.url, "benchmark")
            stack.push_async_callback(client.close)
            contender = await HivememContender.connect(store, fleet.url)
            stack.push_async_callback(contender.close)
            fleets[synced] = fleet, client, contender
        for _, synced in turns(list(fleets), lab.sizes.backlogs):
            fleet, client, contender = fleets[synced]
            _, _, announced = await carry_out(lab.sizes.backlog, contender, fleet, client)
            found["announced", synced].append(announced)
            found["told again", synced].append(await _tell_again(fleet, client))
    for measure in ("announced", "told again"):
        with_sync, without = found[measure, True], found[measure, False]
        lab.results.add(f"synced, {measure} per second", store, "/s", with_sync)
        ratios = [rate / other for rate, other in zip(with_sync, without, strict=True)]
        lab.results.add(f"synced, {measure}, to not synced", store, "x", ratios)


async def _tell_again(fleet: Fleet, client: Client) -> float:
    """Changes a second, from the first to the last one of a feed that was lost as a whole."""
    count = await last_change(client)
    fleet.worker.stop()
    await ask(client, f"STREAM.DELETE.{CHANGES}")
    fleet.worker.start()
    await drained(client, 0, count)
    first, last = await moment_of(client, 1), await moment_of(client, count)
    return count / (last.announced - first.announced)
