"""A memory worker on a bus of its own, an index, and a tenant for each test."""

import uuid
from collections.abc import AsyncIterator, Iterator
from urllib.parse import urlsplit

import pytest
import pytest_asyncio
from nats.aio.client import Client

from hivemem_memory.worker import MemorySettings
from hivemem_memory.worker import build as build_memory
from hivemem_runtime.bus.connection import connect
from hivemem_runtime.bus.requests.outgoing import Asking
from hivemem_runtime.ledger.sqlite import SqliteLedger
from hivemem_runtime.worker import Worker
from hivemem_testing.contract import Server
from hivemem_testing.servers import packaged_nats
from hivemem_testing.stores import parametrize_stores
from hivemem_vectors.pipeline.decisions.points import FIELDS
from hivemem_vectors.pipeline.endpoints.peers import MemoryService, SessionService
from hivemem_vectors.recall.endpoints.waiting import IndexWaiters
from hivemem_vectors.stores.edge.store import EdgeVectors
from hivemem_vectors.stores.ports import Schema, VectorStore
from hivemem_vectors.stores.qdrant.store import QdrantVectors
from hivemem_vectors.worker import ENTITIES

from .meaning import DIMENSION, MODEL
from .shelf import Desk, MemoryAgent, Shelf


@pytest.fixture(scope="session")
def bus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A private bus; on a shared one the workers of other tests would take some of the changes."""
    with packaged_nats(tmp_path_factory.mktemp("recall-bus")) as server:
        yield server


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def memory_worker(bus: Server, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Worker]:
    settings = MemorySettings(nats_url=bus.url, store="sqlite", data=tmp_path_factory.mktemp("recall-memory"))
    worker = build_memory(settings)
    await worker.start()
    yield worker
    await worker.stop()


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def client(bus: Server, memory_worker: Worker) -> AsyncIterator[Client]:
    client = await connect(bus.url, "recall tests")
    yield client
    await client.close()


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def asking(client: Client) -> AsyncIterator[Asking]:
    asking = Asking()
    await asking.start(client)
    yield asking
    await asking.stop()


@pytest.fixture(scope="session")
def memories(asking: Asking) -> MemoryService:
    return MemoryService(asking)


@pytest.fixture(scope="session")
def sessions(asking: Asking) -> SessionService:
    return SessionService(asking)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def ledger(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[SqliteLedger]:
    ledger = SqliteLedger(tmp_path_factory.mktemp("recall-ledger") / "vectors.db", ENTITIES)
    await ledger.open()
    yield ledger
    await ledger.close()


SENSITIVE = {"test_collections", "test_conditions", "test_filters"}
"""The modules that depend on the store. The conformance suite of stores proves the rest."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    parametrize_stores(metafunc, "store", ("edge", "qdrant"), SENSITIVE)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[VectorStore]:
    if request.param == "edge":
        opened: VectorStore = EdgeVectors(tmp_path_factory.mktemp("recall-edge"))
    else:
        server: Server = request.getfixturevalue("qdrant_server")
        host, port = urlsplit(server.address.url).hostname, server.address.grpc_port
        opened = QdrantVectors(f"http://{host}:{port}")
    yield opened
    await opened.close()


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def collection(store: VectorStore) -> AsyncIterator[str]:
    name = f"memories-{uuid.uuid4().hex}"
    await store.ensure_collection(name, Schema(DIMENSION, MODEL, FIELDS))
    yield name
    await store.drop_collection(name)


@pytest_asyncio.fixture(loop_scope="session")
async def behind(
    ledger: SqliteLedger, memories: MemoryService, sessions: SessionService, client: Client
) -> AsyncIterator[IndexWaiters]:
    behind = IndexWaiters(ledger, memories, sessions)
    await behind.start(client)
    yield behind
    await behind.stop()


@pytest.fixture
def desk(
    ledger: SqliteLedger,
    store: VectorStore,
    memories: MemoryService,
    sessions: SessionService,
    collection: str,
    behind: IndexWaiters,
) -> Desk:
    return Desk(ledger, store, memories, collection, behind, sessions=sessions)


@pytest.fixture
def bot(client: Client, memory_worker: Worker) -> MemoryAgent:
    return MemoryAgent(client, memory_worker, f"tenant-{uuid.uuid4().hex[:12]}")


@pytest.fixture
def shelf(desk: Desk, bot: MemoryAgent) -> Shelf:
    return Shelf(desk, bot, desk.service())
