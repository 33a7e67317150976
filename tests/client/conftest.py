"""A real server, a stand-in for the workers, and a client with a tenant of its own for each test."""

import re
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

import hivemem
from hivemem_testing.contract import Server
from hivemem_testing.process import ProcessServer
from hivemem_testing.servers import packaged_nats

from .fleet import Fleet, join

URL = re.compile(rb"nats://[\d.]+:\d+")


@pytest.fixture(scope="session")
def shared_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A private server that no test stops; the streams of these tests are created and deleted on it."""
    with packaged_nats(tmp_path_factory.mktemp("nats")) as server:
        yield server


@pytest.fixture(scope="session")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a fleet as `hivemem up` runs it, for the tests that need all workers."""
    command = [sys.executable, "-m", "hivemem", "up", "--nats-port", "0", "--http-port", "0"]
    data = tmp_path_factory.mktemp("fleet") / "data"
    with subprocess.Popen([*command, "--data", str(data)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        try:
            found = URL.search(process.stdout.readline())
            assert found is not None, "it says where it is once it is ready"
            yield found[0].decode()
        finally:
            process.terminate()


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[ProcessServer]:
    """A server that the test may kill."""
    with packaged_nats(tmp_path / "nats") as server:
        yield server


@pytest.fixture
async def fleet(shared_server: Server) -> AsyncIterator[Fleet]:
    """A stand-in fleet that serves, with empty streams."""
    fleet = await join(shared_server.url)
    await fleet.make_streams()
    await fleet.serve()
    yield fleet
    await fleet.close()


@pytest.fixture
async def hive(shared_server: Server, fleet: Fleet) -> AsyncIterator[hivemem.Hive]:
    async with hivemem.connect(shared_server.url, tenant="acme", agent="bot", timeout_seconds=5) as hive:
        yield hive


@pytest.fixture
async def own_fleet(own_server: ProcessServer) -> AsyncIterator[Fleet]:
    fleet = await join(own_server.url)
    await fleet.make_streams()
    await fleet.serve()
    yield fleet
    await fleet.close()


@pytest.fixture
async def own_hive(own_server: ProcessServer, own_fleet: Fleet) -> AsyncIterator[hivemem.Hive]:
    """A client of the server that may be killed."""
    async with hivemem.connect(
        own_server.url, tenant="acme", agent="bot", timeout_seconds=20, attempt_seconds=2
    ) as hive:
        yield hive
