"""Read-your-writes: recalls that wait for the index, over the real feed and the real pipeline."""

import asyncio
import time
import uuid
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import pytest
import pytest_asyncio
from nats.aio.client import Client

from hivemem_contracts.errors import Overloaded, Unavailable
from hivemem_memory.worker import MemorySettings
from hivemem_memory.worker import build as build_memory
from hivemem_runtime.bus.connection import connect
from hivemem_runtime.bus.feed.publisher import Publisher
from hivemem_runtime.bus.reactions.consumers import Reactions
from hivemem_runtime.bus.requests.outgoing import Asking
from hivemem_runtime.circuit_breaker import CircuitBreaker
from hivemem_runtime.ledger.places import place_of
from hivemem_runtime.ledger.sqlite import SqliteLedger
from hivemem_runtime.worker import Worker
from hivemem_sessions.worker import SessionsSettings
from hivemem_sessions.worker import build as build_sessions
from hivemem_testing import agent
from hivemem_testing.servers import packaged_nats
from hivemem_testing.waiting import eventually
from hivemem_vectors.pipeline.decisions.changes import ItemVersion
from hivemem_vectors.pipeline.decisions.drafts import Chunker
from hivemem_vectors.pipeline.endpoints.indexing import Indexer
from hivemem_vectors.pipeline.endpoints.peers import MemoryService, SessionService
from hivemem_vectors.pipeline.entities import FAILED, Item
from hivemem_vectors.pipeline.reactions import reactions
from hivemem_vectors.recall.endpoints import waiting
from hivemem_vectors.recall.endpoints.waiting import IndexWaiters
from hivemem_vectors.stores.edge.store import EdgeVectors
from hivemem_vectors.upkeep.reactions.retries import ItemRetry
from hivemem_vectors.worker import ENTITIES

from ..guarding import guarded
from .meaning import MeaningEmbedder
from .shelf import NAMESPACE, Body, Desk, MemoryAgent, Shelf, keys, mirrored

pytestmark = pytest.mark.asyncio(loop_scope="module")
COLLECTION = "memories"
LONG_MS = 10_000


@dataclass
class Fleet:
    """The workers and the feed behind a recall that waits. `embedder` belongs to the pipeline alone."""

    client: Client
    memory: Worker
    sessions: Worker
    path: Path
    ledger: SqliteLedger
    store: EdgeVectors
    memories: MemoryService
    session_service: SessionService
    embedder: MeaningEmbedder


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def fleet(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Fleet]:
    data = tmp_path_factory.mktemp("waiting")
    with packaged_nats(data / "bus") as server:
        memory = build_memory(MemorySettings(nats_url=server.url, store="sqlite", data=data))
        sessions = build_sessions(SessionsSettings(nats_url=server.url, store="sqlite", data=data))
        await memory.start()
        await sessions.start()
        client = await connect(server.url, "waiting tests")
        asking = Asking()
        await asking.start(client)
        ledger = SqliteLedger(data / "vectors.db", ENTITIES)
        await ledger.open()
        store, embedder, memories = EdgeVectors(data / "edge"), MeaningEmbedder(), MemoryService(asking)
        breaker = CircuitBreaker("the embedder")
        guard = guarded(store, ledger, model=embedder.model, dimension=embedder.dimension)
        indexer = Indexer(ledger, guard, embedder, breaker, Chunker(len), memories, collection=COLLECTION)
        await indexer.prepare()
        following = Reactions(server.url, "vectors")
        for reaction in reactions(ledger, indexer, SessionService(asking)):
            following.add(reaction)
        await following.start()
        retrying = ItemRetry(ledger, indexer)
        await retrying.start(client)
        yield Fleet(
            client, memory, sessions, data / "vectors.db", ledger, store, memories, SessionService(asking), embedder
        )
        await retrying.stop()
        await following.stop()
        await asking.stop()
        await client.close()
        await sessions.stop()
        await memory.stop()
        await store.close()
        await ledger.close()


@pytest_asyncio.fixture(loop_scope="module")
async def behind(fleet: Fleet) -> AsyncIterator[IndexWaiters]:
    behind = IndexWaiters(fleet.ledger, fleet.memories, fleet.session_service)
    await behind.start(fleet.client)
    yield behind
    await behind.stop()


@pytest_asyncio.fixture(loop_scope="module")
async def shelf(fleet: Fleet, behind: IndexWaiters) -> AsyncIterator[Shelf]:
    desk = Desk(fleet.ledger, fleet.store, fleet.memories, COLLECTION, behind)
    bot = MemoryAgent(fleet.client, fleet.memory, f"tenant-{uuid.uuid4().hex[:12]}")
    yield Shelf(desk, bot, desk.service())
    fleet.embedder.gate.set()
    fleet.embedder.failure = None


async def test_what_was_written_before_is_found(shelf: Shelf) -> None:
    for number in range(20):
        await shelf.bot.put("k", f"note {number}")
        (item,) = (answer := await shelf.answer(f"note {number}", wait_ms=LONG_MS, namespace_prefix=NAMESPACE))["items"]
        assert answer["degraded"] is None
        assert (item["version"], item["text"]) == (number + 1, f"note {number}")


async def test_without_a_prefix_all_that_was_written_is_waited_for(shelf: Shelf) -> None:
    for root in ("user", "app", "project", "session", "temp"):
        await shelf.bot.put(root, "note", namespace=f"{root}:x")

    assert len(await shelf.recall("note", wait_ms=LONG_MS)) == 5


async def test_many_writes_are_waited_for(shelf: Shelf) -> None:
    puts = [{"namespace": NAMESPACE, "key": f"k{number:03}", "value": f"note {number}"} for number in range(700)]
    await shelf.bot.ask("put_batch", {"puts": puts})

    answer = await shelf.answer("note 699", wait_ms=LONG_MS, namespace_prefix="user", limit=1)

    assert answer["degraded"] is None
    assert keys(answer) == ["k699"]


async def test_a_deletion_is_waited_for(shelf: Shelf) -> None:
    memory = await shelf.bot.put("k", "note")
    assert await shelf.recall("note", wait_ms=LONG_MS) == ["k"]
    await shelf.bot.ask("delete", {"namespace": NAMESPACE, "key": "k"})

    assert await shelf.recall("note", wait_ms=LONG_MS) == []
    item = await shelf.item(memory)
    assert item is not None
    assert item.gone


async def test_a_value_that_is_left_out_of_the_feed_is_waited_for(shelf: Shelf) -> None:
    await shelf.bot.put("k", {"data": ["x" * 100] * 1_000}, metadata={"text": "a red car"})

    assert await shelf.recall("vehicle", wait_ms=LONG_MS) == ["k"]


async def test_when_the_time_is_over_the_answer_says_that_it_is_behind(shelf: Shelf, fleet: Fleet) -> None:
    await shelf.keep("old", "a red car")
    fleet.embedder.gate.clear()
    await shelf.bot.put("new", "another red car")

    answer = await shelf.answer("car", wait_ms=100)

    assert keys(answer) == ["old"]
    assert answer["degraded"] == {
        "reasons": ["behind"],
        "detail": "not everything that was written before is indexed yet",
    }
    assert await shelf.recall("car") == ["old"]
    assert await shelf.recall("car", wait_ms=0) == ["old"]


async def test_a_wait_ends_when_the_index_has_caught_up(shelf: Shelf, fleet: Fleet, behind: IndexWaiters) -> None:
    fleet.embedder.gate.clear()
    await shelf.bot.put("k", "note")
    recalling = asyncio.create_task(shelf.recall("note", wait_ms=LONG_MS))
    await eventually(lambda: behind.waiting == 1 and bool(fleet.embedder.asked), "it waits")

    fleet.embedder.gate.set()

    assert await recalling == ["k"]
    assert behind.waiting == 0


async def test_what_others_write_elsewhere_is_not_waited_for(shelf: Shelf, fleet: Fleet) -> None:
    await shelf.bot.put("k", "note")
    assert await shelf.recall("note", wait_ms=LONG_MS) == ["k"]
    fleet.embedder.gate.clear()
    await shelf.bot.put("k", "note", namespace="user:alicex")
    await MemoryAgent(fleet.client, fleet.memory, f"{shelf.tenant}-other").put("k", "note")

    assert await shelf.recall("note", wait_ms=LONG_MS, namespace_prefix=NAMESPACE) == ["k"]


async def test_what_is_not_on_the_feed_yet_is_waited_for(
    shelf: Shelf, fleet: Fleet, behind: IndexWaiters, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = asyncio.Event()
    publish = Publisher.publish

    async def held(self: Publisher, *args: Any) -> None:
        await gate.wait()
        await publish(self, *args)

    monkeypatch.setattr(Publisher, "publish", held)
    await shelf.bot.put("k", "note")
    recalling = asyncio.create_task(shelf.recall("note", wait_ms=LONG_MS))
    await eventually(lambda: behind.waiting == 1, "it waits")
    assert (await shelf.answer("note", wait_ms=100))["degraded"]["reasons"] == ["behind"]

    gate.set()

    assert await recalling == ["k"]


async def test_what_another_worker_indexes_is_noticed(shelf: Shelf, fleet: Fleet) -> None:
    """This worker is not notified of the other worker's commits."""
    ledger = SqliteLedger(fleet.path, ENTITIES)
    await ledger.open()
    behind = IndexWaiters(ledger, fleet.memories, fleet.session_service)
    await behind.start(fleet.client)
    desk = replace(shelf.desk, ledger=ledger, behind=behind)
    other = Shelf(desk, shelf.bot, desk.service())
    for number in range(1, 4):
        await shelf.bot.put("k", f"note {number}")
        answer = await other.answer("note", wait_ms=LONG_MS, namespace_prefix=NAMESPACE)
        assert [item["version"] for item in answer["items"]] == [number]
        await shelf.bot.put("k", f"note {number}", namespace="user:bob")
        assert (await other.answer("note", min_version=number, namespace_prefix="user:bob"))["degraded"] is None
    await behind.stop()
    await ledger.close()


async def test_what_was_refused_is_told_of_and_keeps_nobody_waiting(shelf: Shelf) -> None:
    later = time.time_ns() // 1_000 + 3_600_000_000
    refused = ItemVersion(shelf.tenant, place_of(NAMESPACE, "bad"), 1, False, {"updated_at": 1}, "a red car")
    item = Item(1, False, FAILED, attempts=9, error="text: refused", retry_at=later)
    await shelf.note(refused.place, item, mirrored(refused, embedded=False))
    await shelf.bot.put("good", "another red car")
    began = time.monotonic()

    answer = await shelf.answer("car", wait_ms=LONG_MS)

    assert time.monotonic() - began < LONG_MS / 1_000
    assert keys(answer) == ["good"]
    assert answer["degraded"] == {
        "reasons": ["behind"],
        "detail": "not everything that was written before is indexed yet; 1 item waits for the index: text: refused",
    }


async def test_what_is_tried_again_in_time_is_waited_for(shelf: Shelf, fleet: Fleet) -> None:
    fleet.embedder.failure = Unavailable("the model is not loaded", retry_after_ms=1)
    memory = await shelf.bot.put("k", "note")

    async def waits() -> bool:
        item = await shelf.item(memory)
        return item is not None and item.state == "pending"

    await eventually(waits, "it waits for the embedder")
    late = await shelf.answer("note", wait_ms=50)
    assert keys(late) == ["k"]
    assert "the model is not loaded" in late["degraded"]["detail"]
    fleet.embedder.failure = None

    assert await shelf.recall("note", wait_ms=30_000) == ["k"]


async def test_a_version_is_waited_for(shelf: Shelf, behind: IndexWaiters) -> None:
    await shelf.bot.put("k", "note 1")
    assert await shelf.recall("note", min_version=1) == ["k"]
    assert await shelf.recall("note", min_version=1, wait_ms=0) == ["k"]

    recalling = asyncio.create_task(shelf.answer("note", min_version=2, namespace_prefix=NAMESPACE))
    await eventually(lambda: behind.waiting == 1, "it waits")
    await shelf.bot.put("other", "note", namespace="user:bob")
    await shelf.bot.put("other", "note again", namespace="user:bob")
    await shelf.bot.put("k", "note 2")

    assert [item["version"] for item in (await recalling)["items"]] == [2]


async def test_a_version_that_does_not_come_is_waited_for_in_vain(shelf: Shelf) -> None:
    await shelf.bot.put("k", "note")
    assert await shelf.recall("note", wait_ms=LONG_MS) == ["k"]

    for wait_ms in (0, 50):
        answer = await shelf.answer("note", min_version=2, wait_ms=wait_ms)
        assert keys(answer) == ["k"]
        assert answer["degraded"]["reasons"] == ["behind"]


async def test_among_too_many_to_look_at_everything_is_waited_for(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting, "ITEMS_LOOKED_AT", 2)
    for key in "abc":
        await shelf.bot.put(key, "note")
    assert len(await shelf.recall("note", wait_ms=LONG_MS)) == 3
    await shelf.bot.put("a", "another note")

    answer = await shelf.answer("another", min_version=2)

    assert answer["degraded"] is None
    assert (answer["items"][0]["key"], answer["items"][0]["version"]) == ("a", 2)


async def test_only_so_many_may_wait(shelf: Shelf, fleet: Fleet) -> None:
    behind = IndexWaiters(fleet.ledger, fleet.memories, fleet.session_service, limit=1)
    await behind.start(fleet.client)
    desk = replace(shelf.desk, behind=behind)
    shelf = Shelf(desk, shelf.bot, desk.service())
    first = asyncio.create_task(shelf.answer("note", min_version=9, wait_ms=LONG_MS))
    await eventually(lambda: behind.waiting == 1, "one waits")

    with pytest.raises(Overloaded) as refused:
        await shelf.answer("note", min_version=9, wait_ms=LONG_MS)

    assert refused.value.context["limit"] == 1
    assert await shelf.recall("note") == []
    behind.leave()
    assert (await first)["degraded"]["reasons"] == ["behind"]
    assert (await shelf.answer("note", wait_ms=LONG_MS))["degraded"]["reasons"] == ["behind"]


async def test_who_gives_up_waits_no_more(shelf: Shelf, behind: IndexWaiters) -> None:
    recalling = asyncio.create_task(shelf.answer("note", min_version=9, wait_ms=LONG_MS))
    await eventually(lambda: behind.waiting == 1, "it waits")
    recalling.cancel()
    await asyncio.gather(recalling, return_exceptions=True)

    assert behind.waiting == 0


async def test_without_the_memory_service_nobody_knows(shelf: Shelf, fleet: Fleet) -> None:
    asking = Asking()  # it was not started
    behind = IndexWaiters(fleet.ledger, MemoryService(asking), SessionService(asking))
    await behind.start(fleet.client)
    loop = asyncio.get_running_loop()

    assert not await behind.caught_up(shelf.tenant, NAMESPACE, loop.time() + 0.05)


class SessionAgent(agent.Agent):
    SERVICE: ClassVar[str] = "sessions"


async def test_events_are_waited_for_below_their_session(shelf: Shelf, fleet: Fleet) -> None:
    bot = SessionAgent(fleet.client, fleet.sessions, shelf.tenant)
    fields: Body = {"session_id": "s1", "app_name": "app", "user_id": "alice", "metadata": {"index_events": True}}
    await bot.ask("create", fields)
    for number in range(1, 4):
        event = {"event_id": f"e{number}", "type": "said", "content": f"note {number}"}
        await bot.ask("append", {"session_id": "s1", "event": event})
        named = await shelf.answer("note", wait_ms=LONG_MS, namespace_prefix="session:s1")
        assert len(named["items"]) == number
        await bot.announced()
        for prefix in ("session:s1", "session", None):
            asked = {} if prefix is None else {"namespace_prefix": prefix}
            answer = await shelf.answer("note", wait_ms=LONG_MS, **asked)
            assert answer["degraded"] is None
            assert len(answer["items"]) == number


async def test_the_earlier_events_of_a_session_are_waited_for(shelf: Shelf, fleet: Fleet) -> None:
    bot = SessionAgent(fleet.client, fleet.sessions, shelf.tenant)
    await bot.ask("create", {"session_id": "s1", "app_name": "app", "user_id": "alice"})
    for number in range(3):
        event = {"event_id": f"e{number}", "type": "said", "content": f"note {number}"}
        await bot.ask("append", {"session_id": "s1", "event": event})
    await bot.ask("update", {"session_id": "s1", "metadata": {"index_events": True}})
    await bot.announced()
    answer = await shelf.answer("note", namespace_prefix="session:s1", wait_ms=LONG_MS)
    assert (answer["degraded"], len(answer["items"])) == (None, 3)
