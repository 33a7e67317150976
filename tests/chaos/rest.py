"""Waits until the fleet has finished and announced all its work."""

import asyncio
import time

from nats.aio.client import Client

from .feed import commands_waiting, last_sequence
from .fleet import DUPLICATE_WINDOW_SECONDS, Fleet, status, works

SWEPT_SECONDS = 3.0 + DUPLICATE_WINDOW_SECONDS
"""Longer than the interval of a sweep, so that a late duplicate is seen."""
DONE_SECONDS = 0.3
REST_SECONDS = 90.0
POLL_SECONDS = 0.05


async def come_to_rest(client: Client, fleet: Fleet) -> None:
    """Wait until all commands are done and the feed is quiet, kill all workers, and wait once more."""
    await quiet(client, fleet, DONE_SECONDS)
    for worker in fleet.workers:
        worker.kill()
    await asyncio.gather(*(asyncio.to_thread(worker.start) for worker in fleet.workers))
    await quiet(client, fleet, SWEPT_SECONDS)


async def quiet(client: Client, fleet: Fleet, seconds: float) -> None:
    """Wait until all workers are ready, no command is left, and the feed has not grown for a while."""
    deadline = time.monotonic() + REST_SECONDS
    for worker in fleet.workers:
        while not await asyncio.to_thread(works, worker):
            assert time.monotonic() < deadline, f"{worker.name} is never ready"
    last, since = -1, time.monotonic()
    while time.monotonic() - since < seconds:
        newest, waiting = await last_sequence(client), await commands_waiting(client)
        if newest != last or waiting:
            last, since = newest, time.monotonic()
        if time.monotonic() > deadline:
            states = [await asyncio.to_thread(status, worker) for worker in fleet.workers]
            raise AssertionError(f"never at rest: {waiting} commands wait, the feed is at {newest}: {states}")
        await asyncio.sleep(POLL_SECONDS)
