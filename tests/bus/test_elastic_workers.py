"""Worker processes start, stop, die and freeze, and the server dies too: no command is lost, repeated or reordered."""

import asyncio
import os
import random
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from nats.aio.client import Client

from hivemem_contracts.streams import DEAD
from hivemem_runtime.bus.connection import connect
from hivemem_runtime.bus.streams import declare
from hivemem_runtime.clock import elapsed_seconds
from hivemem_runtime.ledger.sqlite.ledger import SqliteLedger
from hivemem_testing.process import ProcessServer
from hivemem_testing.servers import packaged_nats

from .conftest import SETTINGS
from .items import count_of, numbers_of, sqlite_ledger
from .stored import command, messages_in
from .waiting import eventually
from .worker_process import MEMBER_SECONDS, PIN_SECONDS, READY

ROOT = Path(__file__).parents[2]
ROUTES = [f"route{number}" for number in range(40)]
LATE_SECONDS = 60.0


class Worker:
    def __init__(self, url: str, ledger: Path) -> None:
        command_line = [sys.executable, "-m", "tests.bus.worker_process", url, str(ledger)]
        self.log = ledger.with_name("workers.log").open("ab")
        self.process = subprocess.Popen(command_line, cwd=ROOT, stdout=subprocess.PIPE, stderr=self.log)

    async def ready(self) -> None:
        assert self.process.stdout is not None
        # The process also logs to its standard output, so skip lines until the ready line.
        while line := await asyncio.to_thread(self.process.stdout.readline):
            if line.decode().strip() == READY:
                return
        raise AssertionError(f"the worker ended with {self.process.wait()}")

    async def end(self, how: signal.Signals) -> None:
        self.process.send_signal(how)
        code = await asyncio.to_thread(self.process.wait, 30)
        assert code == (0 if how is signal.SIGTERM else -how), "a worker that is asked to stop does so"

    async def freeze(self, seconds: float) -> None:
        """Freeze it for longer than its pins and its membership last, while the others take over."""
        self.process.send_signal(signal.SIGSTOP)
        thaw_at = elapsed_seconds() + seconds
        await eventually(lambda: elapsed_seconds() >= thaw_at, "it was frozen for that long")
        self.process.send_signal(signal.SIGCONT)

    def clean_up(self) -> None:
        if self.process.poll() is None:
            os.kill(self.process.pid, signal.SIGCONT)
            self.process.kill()
            self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()
        self.log.close()


class Fleet:
    def __init__(self, url: str, ledger: Path) -> None:
        self._url = url
        self._ledger = ledger
        self.workers: list[Worker] = []
        self.all: list[Worker] = []

    async def join(self) -> None:
        worker = Worker(self._url, self._ledger)
        self.all.append(worker)
        await worker.ready()
        self.workers.append(worker)

    def take(self, choice: random.Random) -> Worker:
        worker = choice.choice(self.workers)
        self.workers.remove(worker)
        return worker

    def clean_up(self) -> None:
        for worker in self.all:
            worker.clean_up()


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[ProcessServer]:
    """A server that may be killed. It syncs `always`, because acknowledged messages must survive the kill."""
    with packaged_nats(tmp_path / "nats", sync_interval="always") as server:
        yield server


@pytest.fixture
async def own_client(own_server: ProcessServer) -> AsyncIterator[Client]:
    client = await connect(own_server.url, "tests")
    await declare(client, SETTINGS)
    yield client
    await client.close()


@pytest.fixture
async def ledger(tmp_path: Path) -> AsyncIterator[SqliteLedger]:
    ledger = sqlite_ledger(tmp_path / "ledger.db")
    await ledger.open()
    yield ledger
    await ledger.close()


@pytest.fixture
async def fleet(
    own_server: ProcessServer, own_client: Client, ledger: SqliteLedger, tmp_path: Path
) -> AsyncIterator[Fleet]:
    fleet = Fleet(own_server.url, tmp_path / "ledger.db")
    yield fleet
    fleet.clean_up()


class Publishing:
    """Publishes increasing numbers on every route, each after the previous one was stored."""

    def __init__(self, client: Client) -> None:
        self.stopped = asyncio.Event()
        self.number = 0
        self._task = asyncio.create_task(self._publish(client))

    async def _publish(self, client: Client) -> None:
        while not self.stopped.is_set():
            self.number += 1
            await asyncio.gather(*(command(client, "add", route, self.number) for route in ROUTES))

    async def stop(self) -> int:
        """Stop, and return the last number of every route."""
        self.stopped.set()
        await self._task
        return self.number


async def everything_is_there_in_order(client: Client, ledger: SqliteLedger, last: int) -> None:
    async def all_there() -> bool:
        return await count_of(ledger, ROUTES) >= last * len(ROUTES)

    with suppress(AssertionError):
        await eventually(all_there, "every command is committed", deadline_seconds=LATE_SECONDS)
    for route in ROUTES:
        assert await numbers_of(ledger, route) == list(range(1, last + 1)), route
    assert await messages_in(client, DEAD) == []


async def progress(ledger: SqliteLedger, count: int) -> None:
    """Wait until `count` more commands are committed."""
    goal = await count_of(ledger, ROUTES) + count

    async def made() -> bool:
        return await count_of(ledger, ROUTES) >= goal

    await eventually(made, f"{count} more commands are committed")


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
async def test_order_holds_while_workers_join_leave_die_and_freeze(
    fleet: Fleet, own_client: Client, ledger: SqliteLedger, seed: int
) -> None:
    choice = random.Random(seed)
    await fleet.join()
    await fleet.join()
    publishing = Publishing(own_client)
    frozen: list[asyncio.Task[None]] = []
    events = ["join", "leave", "join", "die", "freeze", "join", "leave", "join", "freeze"]
    choice.shuffle(events)
    for event in events:
        await progress(ledger, choice.randrange(100, 600))
        if event == "join" or len(fleet.workers) < 2:
            await fleet.join()
        if event == "leave":
            await fleet.take(choice).end(signal.SIGTERM)
        elif event == "die":
            await fleet.take(choice).end(signal.SIGKILL)
        elif event == "freeze":
            seconds = max(PIN_SECONDS, MEMBER_SECONDS) + 1.5
            frozen.append(asyncio.create_task(fleet.take(choice).freeze(seconds)))
    await asyncio.gather(*frozen)
    await progress(ledger, 500)
    last = await publishing.stop()
    assert last * len(ROUTES) > 2_000
    await everything_is_there_in_order(own_client, ledger, last)


@pytest.mark.slow
async def test_order_holds_while_the_server_is_killed_and_comes_back(
    fleet: Fleet, own_client: Client, own_server: ProcessServer, ledger: SqliteLedger
) -> None:
    await fleet.join()
    await fleet.join()
    publishing = Publishing(own_client)
    for _ in range(2):
        await progress(ledger, 500)
        own_server.kill()
        own_server.start()
    await progress(ledger, 500)
    await fleet.workers[0].end(signal.SIGKILL)
    await progress(ledger, 500)
    last = await publishing.stop()
    await everything_is_there_in_order(own_client, ledger, last)
