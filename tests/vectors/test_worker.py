"""The worker as it is wired, beside the workers that it follows, on either pair of stores, over a real bus."""

import functools
import uuid
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import pytest
import pytest_asyncio
from pydantic import BaseModel

import hivemem
from hivemem_contracts.vectors.operations import VECTORS
from hivemem_memory.worker import MemorySettings
from hivemem_memory.worker import build as build_memory
from hivemem_runtime.settings import SettingsError, WorkerSettings
from hivemem_runtime.worker import Worker
from hivemem_sessions.worker import SessionsSettings
from hivemem_sessions.worker import build as build_sessions
from hivemem_testing.contract import Server
from hivemem_testing.idempotency import lasting, writes_of
from hivemem_testing.ports import free_port
from hivemem_testing.servers import packaged_nats
from hivemem_testing.stores import STORES
from hivemem_testing.waiting import eventually
from hivemem_vectors.pipeline.decisions.points import FIELDS
from hivemem_vectors.stores.ports import Schema
from hivemem_vectors.stores.qdrant.store import QdrantVectors
from hivemem_vectors.worker import VectorsSettings, build

pytestmark = pytest.mark.asyncio(loop_scope="module")

NAMESPACE: Final = "user:alice"
WAIT_MS: Final = 10_000
NOTES: Final = {
    "seat": "On trains Alice wants to be seated at the window.",
    "meal": "No nuts: she is allergic to them.",
    "error": "The ticket machine says ERR-4312 when its card reader is wet.",
}


@dataclass(frozen=True)
class Deployment:
    url: str
    stores: dict[str, Any]


def qdrant_url(server: Server) -> str:
    return f"http://{urlsplit(server.address.url).hostname}:{server.address.grpc_port}"


@pytest.fixture(scope="module")
def bus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A private bus; on a shared one the workers of other tests would take some of the changes."""
    with packaged_nats(tmp_path_factory.mktemp("bus")) as server:
        yield server


@pytest.fixture(scope="module", params=["sqlite-edge", "mongo-qdrant"])
def stores(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    ledger, vectors = request.param.split("-")
    more: dict[str, Any] = {"vectors": vectors}
    if vectors == "qdrant":
        more["qdrant_url"] = qdrant_url(request.getfixturevalue("qdrant_server"))
        more["collection"] = f"memories-{uuid.uuid4().hex}"
    for found in STORES[ledger](request, "vectors"):
        yield {"data": tmp_path_factory.mktemp("vectors"), **found, **more}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def deployment(bus: Server, stores: dict[str, Any]) -> AsyncIterator[Deployment]:
    common = {name: value for name, value in stores.items() if name in WorkerSettings.model_fields}
    workers = [
        build_sessions(SessionsSettings(nats_url=bus.url, **common)),
        build_memory(MemorySettings(nats_url=bus.url, **common)),
        build(VectorsSettings(nats_url=bus.url, **stores)),
    ]
    for worker in workers:
        await worker.start()
    yield Deployment(bus.url, stores)
    for worker in reversed(workers):
        await worker.stop()


@pytest_asyncio.fixture(loop_scope="module")
async def hive(deployment: Deployment) -> AsyncIterator[hivemem.Hive]:
    """A client with a new tenant."""
    async with hivemem.connect(deployment.url, tenant=f"tenant-{uuid.uuid4().hex[:12]}", agent="bot") as hive:
        yield hive


async def remember(hive: hivemem.Hive) -> None:
    puts = [hivemem.PutMemory(namespace=NAMESPACE, key=key, value=value) for key, value in NOTES.items()]
    results = (await hive.memory.put_batch(puts=puts)).results
    assert [result.version for result in results] == [1] * len(NOTES)


async def recalled(hive: hivemem.Hive, question: str, prefix: str = NAMESPACE) -> list[tuple[str, int]]:
    """Return keys and versions of a complete answer."""
    answer = await hive.recall(question, namespace_prefix=prefix, wait_ms=WAIT_MS)
    assert answer.degraded is None
    return [(item.key, item.version) for item in answer.items]


async def test_what_was_just_written_is_found_by_meaning_and_by_words(hive: hivemem.Hive) -> None:
    await remember(hive)
    assert (await recalled(hive, "where does she like to sit"))[0] == ("seat", 1)
    assert (await recalled(hive, "ERR-4312"))[0] == ("error", 1)
    overview = await hive.vectors.overview()
    assert (overview.synced, overview.pending, overview.failed) == (3, 0, 0)
    assert overview.embedder.ready
    assert overview.store.ready


async def test_what_was_changed_deleted_or_erased_is_not_found_any_more(hive: hivemem.Hive) -> None:
    await remember(hive)
    await hive.memory.put(namespace=NAMESPACE, key="seat", value="Alice has come to like the aisle.")
    assert (await recalled(hive, "where does she like to sit"))[0] == ("seat", 2)
    await hive.memory.delete(namespace=NAMESPACE, key="meal")
    assert {key for key, _ in await recalled(hive, "what must not be in her food")} == {"seat", "error"}
    receipts = [await hive.memory.erase(namespace=namespace) for namespace in (NAMESPACE, "user:nobody")]

    async def confirmed() -> bool:
        found = [await hive.memory.erasure(receipt=receipt.receipt) for receipt in receipts]
        assert all(("vectors" in map(attrgetter("worker"), one.confirmed)) == (one.status == "done") for one in found)
        return all(one.status == "done" for one in found)

    await eventually(confirmed, "the index has confirmed both erasures, also that of nothing")
    assert await recalled(hive, "where does she like to sit") == []


async def test_the_feed_says_what_is_found(hive: hivemem.Hive) -> None:
    async with hive.changes(hivemem.prefix("index", "user", "alice", key="seat")) as feed:
        await hive.memory.put(namespace=NAMESPACE, key="seat", value=NOTES["seat"])
        change = await anext(feed)
    assert (change.entity, change.operation, change.key) == ("index", "synced", "seat")
    assert isinstance(change.value, hivemem.IndexStatus)
    assert (change.value.indexed_version, change.value.state) == (1, "synced")


async def test_the_events_of_a_session_that_asks_for_it_are_found(hive: hivemem.Hive) -> None:
    asks: dict[str, dict[str, Any]] = {"tour": {"index_events": True}, "quiet": {}}
    for session_id, metadata in asks.items():
        await hive.sessions.create(session_id=session_id, app_name="travel", user_id="alice", metadata=metadata)
        event = hivemem.NewEvent(event_id="wish", type="message", content={"text": "the Colosseum by night"})
        await hive.sessions.append(session_id=session_id, event=event)

    async def found() -> bool:
        return await recalled(hive, "sights in the evening", "session") == [("wish", 1)]

    await eventually(found, "the event is found, and the other one is not")
    await hive.sessions.delete(session_id="tour")

    async def gone() -> bool:
        return await recalled(hive, "sights in the evening", "session") == []

    await eventually(gone, "it goes with its session")


async def test_vectors_of_ones_own_are_found_at_once(hive: hivemem.Hive) -> None:
    await hive.vectors.store(id="sunset", embedding=[0.9, 0.1, 0.0], metadata={"kind": "photo"})
    await hive.vectors.store(id="forest", embedding=[0.1, 0.9, 0.2])
    found = await hive.vectors.query(embedding=[1.0, 0.0, 0.0], top_k=1)
    assert [(match.id, match.metadata) for match in found.items] == [("sunset", {"kind": "photo"})]
    with pytest.raises(hivemem.InvalidRequest) as refused:
        await hive.vectors.query(embedding=[1.0, 0.0])
    assert (refused.value.context["expected"], refused.value.context["actual"]) == (3, 2)


async def test_a_sweep_finds_nothing_to_repair(hive: hivemem.Hive) -> None:
    await remember(hive)
    await recalled(hive, "anything")
    parts = [part async for part in hive.vectors.sweep_all()]
    assert sum(part.checked for part in parts) >= len(NOTES)
    assert [(part.missing, part.left_over) for part in parts if part.missing or part.left_over] == []
    assert (await hive.vectors.status()).items[0].state == "synced"


async def test_a_tenant_finds_its_own_alone(deployment: Deployment, hive: hivemem.Hive) -> None:
    await remember(hive)
    assert await recalled(hive, "where does she like to sit")
    async with hivemem.connect(deployment.url, tenant=f"{hive.tenant}-other", agent="bot") as other:
        assert await recalled(other, "where does she like to sit") == []


@pytest.fixture
def empty_bus(tmp_path: Path) -> Iterator[Server]:
    with packaged_nats(tmp_path / "nats") as server:
        yield server


async def started(*workers: Worker) -> None:
    for worker in workers:
        await worker.start()


async def test_a_store_that_is_down_keeps_it_from_nothing(empty_bus: Server, tmp_path: Path) -> None:
    memory = build_memory(MemorySettings(nats_url=empty_bus.url, data=tmp_path))
    url = f"http://127.0.0.1:{free_port()}"
    vectors = build(VectorsSettings(nats_url=empty_bus.url, data=tmp_path, vectors="qdrant", qdrant_url=url))
    await started(memory, vectors)
    try:
        async with hivemem.connect(empty_bus.url, tenant="acme", agent="bot") as hive:
            await remember(hive)

            async def found() -> bool:
                answer = await hive.recall("where does she like to sit", namespace_prefix=NAMESPACE)
                assert answer.degraded is not None
                assert "index" in answer.degraded.reasons
                return bool(answer.items) and answer.items[0].key == "seat"

            async def all_wait() -> bool:
                overview = await hive.vectors.overview()
                return not overview.store.ready and overview.pending == len(NOTES)

            await eventually(found, "it is found in the mirror")
            await eventually(all_wait, "all of them wait for the store")
    finally:
        await vectors.stop()
        await memory.stop()


async def test_a_collection_of_another_model_is_refused_by_name(
    empty_bus: Server, qdrant_server: Server, tmp_path: Path
) -> None:
    collection = f"memories-{uuid.uuid4().hex}"
    store = QdrantVectors(qdrant_url(qdrant_server))
    await store.ensure_collection(collection, Schema(768, "nomic-embed-text", FIELDS))
    worker = build(
        VectorsSettings(
            nats_url=empty_bus.url,
            data=tmp_path,
            vectors="qdrant",
            qdrant_url=qdrant_url(qdrant_server),
            collection=collection,
        )
    )
    with pytest.raises(SettingsError, match=rf"^HIVEMEM_COLLECTION={collection}: .* of dimension 768, not 384; give"):
        await worker.start()
    await worker.stop()
    await store.drop_collection(collection)
    await store.close()


_ONE: Final = {"id": "one", "embedding": [1.0, 0.0]}
_BODIES: Final[dict[str, tuple[dict[str, Any], dict[str, Any]]]] = {
    "store": ({**_ONE, "collection": "default"}, {**_ONE, "embedding": [0.0, 1.0]}),
    "delete": ({"id": "one"}, {"id": "two"}),
    "sweep": ({"dry_run": True}, {}),
}


@pytest.mark.parametrize("operation", _BODIES)
async def test_one_id_is_one_command(hive: hivemem.Hive, operation: str) -> None:
    assert list(_BODIES) == writes_of(VECTORS)
    body, other = _BODIES[operation]
    await hive.vectors.store(id="one", embedding=[1.0, 1.0])
    ask = functools.partial(asked, hive, operation)
    first = await ask(body, "m1")

    with pytest.raises(hivemem.IdempotencyConflict):
        await ask(other, "m1")
    assert lasting(await ask({name: body[name] for name in reversed(body)}, "m1")) == lasting(first)
    await ask(other, "m2")


async def asked(hive: hivemem.Hive, operation: str, body: dict[str, Any], id: str) -> dict[str, Any]:
    reply: BaseModel = await getattr(hive.with_options(message_id=id).vectors, operation)(**body)
    return reply.model_dump(mode="json")
