"""The real worker on a real bus, one per store; every test has a tenant of its own."""

import uuid
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Any, Final

import pytest
import pytest_asyncio
from nats.aio.client import Client

from hivemem_memory.endpoints import erasures
from hivemem_memory.worker import MemorySettings, build
from hivemem_runtime.worker import Worker
from hivemem_testing.contract import Server
from hivemem_testing.stores import STORES, parametrize_stores
from hivemem_testing.waiting import DEADLINE_SECONDS

from .hive import Agent, connect
from .leasing import Place

STORE_SENSITIVE: Final = frozenset(
    {
        "test_audit_loss",
        "test_erase",
        "test_export_import",
        "test_idempotency",
        "test_kills",
        "test_lease_queues",
        "test_list",
        "test_many_writers",
        "test_namespaces",
        "test_put_batch",
        "test_random_history",
        "test_random_writes",
    }
)
"""The modules whose tests run on every store."""


@dataclass(frozen=True)
class Deployment:
    """A running worker, and a connection to its bus."""

    settings: MemorySettings
    worker: Worker
    client: Client

    def agent(self, name: str = "bot") -> Agent:
        return Agent(self.client, self.worker, f"tenant-{uuid.uuid4().hex[:12]}", name)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    parametrize_stores(metafunc, "store", tuple(STORES), STORE_SENSITIVE)


@pytest.fixture(scope="session")
def store(request: pytest.FixtureRequest) -> Iterator[dict[str, Any]]:
    """The settings of one store, empty at first."""
    yield from STORES[request.param](request, "memory")


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def deployment(store: dict[str, Any], nats_server: Server) -> AsyncIterator[Deployment]:
    settings = MemorySettings(nats_url=nats_server.url, **store)
    worker = build(settings)
    await worker.start()
    client = await connect(nats_server.url)
    yield Deployment(settings, worker, client)
    await client.close()
    await worker.stop()


@pytest.fixture(autouse=True)
def patient_erasures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let an erasure be done when its request is answered, however busy the machine is."""
    monkeypatch.setattr(erasures, "PATIENCE_SECONDS", DEADLINE_SECONDS * 2 / 3)


@pytest.fixture
def bot(deployment: Deployment) -> Agent:
    """An agent of a new tenant."""
    return deployment.agent()


@pytest.fixture
def place(bot: Agent) -> Place:
    """A new lease."""
    return Place(bot)
