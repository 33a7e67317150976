"""The real worker on a real bus, one per store; every test has a tenant of its own."""

import uuid
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Any, Final

import pytest
import pytest_asyncio
from nats.aio.client import Client

from hivemem_runtime.worker import Worker
from hivemem_sessions.worker import SessionsSettings, build
from hivemem_testing.contract import Server
from hivemem_testing.stores import STORES, parametrize_stores

from .hive import Agent, connect

ARCHIVE_AFTER_EVENTS = 100


STORE_SENSITIVE: Final = frozenset(
    {
        "test_cold_storage",
        "test_deletion",
        "test_durable",
        "test_forks",
        "test_idempotency",
        "test_listing",
        "test_past",
        "test_random_history",
        "test_state_indexes",
    }
)
"""The modules whose tests run on every store."""


@dataclass(frozen=True)
class Deployment:
    """A running worker, and a connection to its bus."""

    settings: SessionsSettings
    worker: Worker
    client: Client

    def agent(self, name: str = "bot") -> Agent:
        return Agent(self.client, self.worker, f"tenant-{uuid.uuid4().hex[:12]}", name)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    parametrize_stores(metafunc, "store", tuple(STORES), STORE_SENSITIVE)


@pytest.fixture(scope="session")
def store(request: pytest.FixtureRequest) -> Iterator[dict[str, Any]]:
    """The settings of one store, empty at first."""
    yield from STORES[request.param](request, "sessions")


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def deployment(store: dict[str, Any], nats_server: Server) -> AsyncIterator[Deployment]:
    settings = SessionsSettings(nats_url=nats_server.url, archive_after_events=ARCHIVE_AFTER_EVENTS, **store)
    worker = build(settings)
    await worker.start()
    client = await connect(nats_server.url)
    yield Deployment(settings, worker, client)
    await client.close()
    await worker.stop()


@pytest.fixture
def bot(deployment: Deployment) -> Agent:
    """An agent of a new tenant."""
    return deployment.agent()
