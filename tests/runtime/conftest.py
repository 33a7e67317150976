"""A nats-server per test that may be killed, with declared streams, and a ledger of things."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from nats.aio.client import Client

from hivemem_runtime.bus.connection import connect
from hivemem_runtime.bus.requests.intake import Requests
from hivemem_runtime.bus.streams import StreamSettings, declare
from hivemem_runtime.ledger.sqlite import SqliteLedger
from hivemem_testing.process import ProcessServer
from hivemem_testing.servers import packaged_nats

from .served import LIMIT, Served
from .things import open_ledger


@pytest.fixture
def bus(tmp_path: Path) -> Iterator[ProcessServer]:
    with packaged_nats(tmp_path / "nats") as server:
        yield server


@pytest.fixture
async def client(bus: ProcessServer) -> AsyncIterator[Client]:
    client = await connect(bus.url, "tests")
    await declare(client, StreamSettings(duplicate_window_seconds=1))
    yield client
    await client.close()


@pytest.fixture
async def ledger(tmp_path: Path) -> AsyncIterator[SqliteLedger]:
    ledger = open_ledger(tmp_path / "things.db")
    await ledger.open()
    yield ledger
    await ledger.close()


@pytest.fixture
def served(ledger: SqliteLedger) -> Served:
    return Served(ledger)


@pytest.fixture
async def requests(client: Client, served: Served) -> AsyncIterator[Requests]:
    requests = Requests(client, served.service(), version="1.2.3", health=lambda: {"ready": True}, under_way=LIMIT)
    await requests.start()
    yield requests
    served.gate.set()
    await requests.stop()


@pytest.fixture
async def caller(bus: ProcessServer) -> AsyncIterator[Client]:
    caller = await connect(bus.url, "caller")
    yield caller
    await caller.close()
