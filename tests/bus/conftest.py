"""A nats-server for the bus tests alone, with empty streams for each test."""

from collections.abc import AsyncIterator, Iterator

import pytest
from nats.aio.client import Client

from hivemem_contracts.streams import BEGUN, CHANGES, CLAIMS, DEAD, FEED_KEY, INGEST, MEMBERS
from hivemem_runtime.bus.connection import connect
from hivemem_runtime.bus.jetstream import STREAM_NOT_FOUND, JetStreamRefused, ask
from hivemem_runtime.bus.streams import StreamSettings, declare
from hivemem_testing.process import ProcessServer
from hivemem_testing.servers import packaged_nats

SETTINGS = StreamSettings(
    changes_max_bytes=64 * 1024 * 1024, ingest_max_bytes=64 * 1024 * 1024, dead_max_bytes=16 * 1024 * 1024
)


@pytest.fixture(scope="session")
def bus_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProcessServer]:
    with packaged_nats(tmp_path_factory.mktemp("bus")) as server:
        yield server


@pytest.fixture
async def bare_client(bus_server: ProcessServer) -> AsyncIterator[Client]:
    """A connection to a server without any stream."""
    client = await connect(bus_server.url, "tests")
    for stream in (INGEST, CHANGES, DEAD, *(f"KV_{bucket}" for bucket in (MEMBERS, BEGUN, CLAIMS, FEED_KEY))):
        try:
            await ask(client, f"STREAM.DELETE.{stream}")
        except JetStreamRefused as error:
            if error.code != STREAM_NOT_FOUND:
                raise
    yield client
    await client.close()


@pytest.fixture
async def client(bare_client: Client) -> Client:
    """A connection to a server whose streams are declared and empty."""
    await declare(bare_client, SETTINGS)
    return bare_client
