"""A worker of the items service as a process of its own: `python -m tests.bus.worker_process URL LEDGER`."""

import asyncio
import os
import signal
import sys
from pathlib import Path

import structlog

from hivemem_runtime.bus.commands.execution import Commands
from hivemem_runtime.bus.commands.members import Members
from hivemem_runtime.bus.commands.partitions import Partitions
from hivemem_runtime.bus.commands.pinned_consumer import PullSettings
from hivemem_runtime.bus.connection import connect
from hivemem_runtime.bus.dead_letters import DeadLetters

from .conftest import SETTINGS
from .items import items_service, sqlite_ledger

PIN_SECONDS = 1.5
MEMBER_SECONDS = 2
READY = "ready"
POISON = 666_666
"""A number that kills the process that adds it."""
DEATH = 86


def die_of_poison(number: int) -> None:
    if number == POISON:
        os._exit(DEATH)


async def main(url: str, path: str) -> None:
    # The test reads standard output only up to the ready line, so logs go to standard error.
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    ledger = sqlite_ledger(Path(path))
    await ledger.open()
    client = await connect(url, "items worker")
    handle = Commands(items_service(ledger, decide=die_of_poison), DeadLetters(client)).handle
    members = Members(client, "items", ttl_seconds=MEMBER_SECONDS)
    settings = PullSettings(pin_seconds=PIN_SECONDS, batch=64)
    partitions = Partitions(client, "items", handle, partitions=SETTINGS.partitions, settings=settings, members=members)
    await partitions.start()
    asked_to_stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, asked_to_stop.set)
    sys.stdout.write(f"{READY}\n")
    sys.stdout.flush()
    await asked_to_stop.wait()
    await partitions.stop()
    await client.close()
    await ledger.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
