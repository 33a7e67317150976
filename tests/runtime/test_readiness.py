"""A worker is ready while none of its parts reports trouble."""

import asyncio
from contextlib import suppress
from pathlib import Path

import orjson
import pytest
from nats.aio.client import Client

from hivemem_contracts.operations import ServiceContract
from hivemem_runtime import worker as module
from hivemem_runtime.bus.feed.announcer import Announcer
from hivemem_runtime.service import Service
from hivemem_runtime.worker import Parts, Worker
from hivemem_sessions.worker import build
from hivemem_testing.process import ProcessServer

from .asking import SECONDS, settings
from .things import THING, eventually, open_ledger


async def test_a_dead_loop_of_any_part_shows_in_readiness_and_on_the_bus(
    bus: ProcessServer, caller: Client, tmp_path: Path
) -> None:
    worker = build(settings(bus.url, tmp_path))
    await worker.start()

    async def troubles() -> list[str]:
        stats = orjson.loads((await caller.request("$SRV.STATS.sessions")).data)
        health = stats["endpoints"][0]["data"]["health"]
        assert health["ready"] is not bool(health["troubles"])
        found: list[str] = health["troubles"]
        return found

    assert await troubles() == []
    for name in ("archiver", "sessions-member", "sessions-p3", "sessions-reactions", "sessions-watch", "ledger-upkeep"):
        (task,) = [task for task in asyncio.all_tasks() if task.get_name() == f"hivemem-{name}"]
        task.cancel()

    async def all_tell() -> bool:
        told = " ".join([*await troubles(), *(await worker.probe())["troubles"]])
        names = ("archiver", "sessions-p3", "sessions-reactions", "sessions-watch", "ledger-upkeep")
        return all(f"the loop {name} has ended" in told for name in names)

    await eventually(all_tell, "each dead loop is told")
    await worker.stop()


async def test_a_store_that_hangs_does_not_hold_up_the_answer(
    bus: ProcessServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PROBE_SECONDS", 0.2)
    ledger = open_ledger(tmp_path / "t.db")
    released = asyncio.Event()

    async def hang() -> None:
        while not released.is_set():
            with suppress(asyncio.CancelledError):  # a driver in the middle of a command may behave like this
                await released.wait()

    monkeypatch.setattr(ledger, "check", hang)
    service = Service(ServiceContract("nothing", "Does nothing.", ()), ledger)
    worker = Worker(settings(bus.url, tmp_path), Parts(service, ledger, Announcer(ledger, [THING])))
    await worker.start()
    health = await asyncio.wait_for(worker.probe(), SECONDS)
    assert health["ready"] is False
    assert "store: a write has not been answered" in health["troubles"][0]
    released.set()

    async def ready() -> bool:
        found: bool = (await worker.probe())["ready"]
        return found

    await eventually(ready, "the store answers again")
    await worker.stop()
