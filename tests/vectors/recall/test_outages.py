"""Recall answers as long as the ledger does: without the embedder, without the index, without the memory service."""

import os
import signal
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import pytest_asyncio
from nats.aio.client import Client
from nats.aio.msg import Msg

from hivemem_contracts.errors import InvalidRequest, Unavailable
from hivemem_runtime.bus.connection import connect
from hivemem_runtime.bus.requests.outgoing import Asking
from hivemem_runtime.bus.subscriptions import subscribe
from hivemem_runtime.ledger.sqlite import SqliteLedger
from hivemem_runtime.tokens import estimated_tokens
from hivemem_testing.servers import packaged_nats, packaged_qdrant
from hivemem_testing.waiting import eventually
from hivemem_vectors.pipeline.decisions.changes import version_of_memory
from hivemem_vectors.pipeline.decisions.points import FIELDS
from hivemem_vectors.pipeline.endpoints.peers import MemoryService
from hivemem_vectors.pipeline.entities import SYNCED, Item
from hivemem_vectors.recall.endpoints import hydrate as hydrating
from hivemem_vectors.recall.endpoints import mirror as mirrored_endpoint
from hivemem_vectors.recall.endpoints import recall as recalling
from hivemem_vectors.stores import guarded
from hivemem_vectors.stores.edge.store import EdgeVectors
from hivemem_vectors.stores.ports import Schema, VectorStore
from hivemem_vectors.stores.qdrant.store import QdrantVectors
from hivemem_vectors.worker import ENTITIES

from .meaning import DIMENSION, MODEL
from .shelf import CHUNK_BETWEEN, NAMESPACE, Body, Shelf, keys, mirrored

pytestmark = pytest.mark.asyncio(loop_scope="session")
SCHEMA = Schema(DIMENSION, MODEL, FIELDS)


def with_store(shelf: Shelf, store: VectorStore) -> Shelf:
    desk = replace(shelf.desk, store=store)
    return Shelf(desk, shelf.bot, desk.service())


@pytest_asyncio.fixture(loop_scope="session")
async def without_index(shelf: Shelf, tmp_path: Path) -> AsyncIterator[Shelf]:
    """A shelf whose engine is killed and cannot be started again."""
    folder = tmp_path / "edge"
    store = EdgeVectors(folder)
    await store.ensure_collection(shelf.desk.collection, SCHEMA)
    assert store.pid is not None
    os.kill(store.pid, signal.SIGKILL)
    folder.rename(tmp_path / "moved")
    folder.write_text("not a folder any more")
    yield with_store(shelf, store)
    await store.close()


def why(answer: Body) -> list[str]:
    reasons: list[str] = answer["degraded"]["reasons"]
    return reasons


async def test_without_the_embedder_the_words_have_to_do(shelf: Shelf) -> None:
    await shelf.keep("car", "a red car with a scratch")
    await shelf.keep("milk", "a glass of milk", importance=1)
    shelf.embedder.failure = Unavailable("the model is not loaded", retry_after_ms=1)

    answer = await shelf.answer("red scratch", weights={"importance": 0.1})

    assert keys(answer) == ["car"]
    assert why(answer) == ["embedder"]
    assert "the model is not loaded" in answer["degraded"]["detail"]
    (item,) = answer["items"]
    assert item["scores"]["dense"] == 0
    assert item["score"] == pytest.approx((item["scores"]["keyword"] + 0.1 * 0.5) / 1.1, abs=1e-5)
    assert keys(await shelf.answer("vehicle")) == []
    assert keys(await shelf.answer("?!")) == []


async def test_an_embedder_that_refuses_the_question_is_no_reason_to_refuse_it(shelf: Shelf) -> None:
    await shelf.keep("car", "a red car")
    shelf.embedder.failure = InvalidRequest("text: no", field="text")

    assert keys(await shelf.answer("red")) == ["car"]


async def test_an_embedder_that_hangs_is_waited_for_a_moment(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recalling, "EMBED_SECONDS", 0.05)
    await shelf.keep("car", "a red car")
    shelf.embedder.gate.clear()

    answer = await shelf.answer("red")

    assert keys(answer) == ["car"]
    assert why(answer) == ["embedder"]


async def test_without_the_index_the_mirror_is_searched(without_index: Shelf) -> None:
    shelf = without_index
    for key, text in {"car": "my automobile is red", "milk": "a glass of milk", "code": "the code is ERR-4312"}.items():
        await mirror(shelf, key, text)

    answer = await shelf.answer("vehicle")

    assert keys(answer)[0] == "car"
    assert answer["items"][0]["text"] == "my automobile is red"
    assert answer["items"][0]["value"] == "my automobile is red"
    assert answer["items"][0]["scores"]["dense"] > 0.2
    assert why(answer) == ["index"]
    assert "more" not in answer["degraded"]["detail"]
    assert keys(await shelf.answer("ERR-4312"))[0] == "code"


async def mirror(shelf: Shelf, key: str, text: str, **fields: Any) -> Body:
    memory = await shelf.bot.put(key, text, **fields)
    await shelf.mirror(version_of_memory(shelf.tenant, memory))
    return memory


async def test_without_the_index_filters_and_prefixes_hold(without_index: Shelf) -> None:
    shelf = without_index
    await mirror(shelf, "yes", "note", memory_type="episodic", metadata={"n": 1})
    await mirror(shelf, "type", "note", metadata={"n": 1})
    await mirror(shelf, "number", "note", memory_type="episodic", metadata={"n": "1"})
    await mirror(shelf, "space", "note", namespace="user:alicex", memory_type="episodic", metadata={"n": 1})
    asked: Body = {"memory_type": "episodic", "filter": {"metadata": {"n": 1}}}

    assert keys(await shelf.answer("note", namespace_prefix=NAMESPACE, **asked)) == ["yes"]
    assert sorted(keys(await shelf.answer("note", **asked))) == ["space", "yes"]
    assert len(keys(await shelf.answer("note"))) == 4


async def test_without_the_index_what_is_gone_is_not_found(without_index: Shelf) -> None:
    shelf = without_index
    deleted, erased, told = [await mirror(shelf, key, "note") for key in ("deleted", "erased", "told")]
    await mirror(shelf, "kept", "note")
    await shelf.bot.ask("delete", {"namespace": NAMESPACE, "key": deleted["key"]})
    await shelf.bot.ask("erase", {"namespace": NAMESPACE, "key": erased["key"]})
    await shelf.remove(told, 2)

    assert keys(await shelf.answer("note")) == ["kept"]


async def test_without_the_index_only_so_many_are_looked_at(
    without_index: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    shelf = without_index
    monkeypatch.setattr(mirrored_endpoint, "ITEMS", 5)
    monkeypatch.setattr(mirrored_endpoint, "READ_AT_ONCE", 2)
    for number in range(9):
        await mirror(shelf, f"k{number}", "note")

    answer = await shelf.answer("note")

    assert keys(answer) == [f"k{number}" for number in range(3, 9)]
    assert answer["degraded"]["detail"].endswith("; 6 items were looked at instead, and there are more")


async def test_without_index_and_embedder_the_words_in_the_mirror_have_to_do(without_index: Shelf) -> None:
    shelf = without_index
    await mirror(shelf, "car", CHUNK_BETWEEN.join(["a blue bus", "a red car"]))
    await mirror(shelf, "milk", "a glass of milk")
    shelf.embedder.failure = Unavailable("down", retry_after_ms=1)

    answer = await shelf.answer("car")

    assert keys(answer) == ["car"]
    assert answer["items"][0]["text"] == "a red car"
    assert why(answer) == ["embedder", "index"]


async def test_embeddings_of_another_model_are_not_compared_with(without_index: Shelf) -> None:
    shelf = without_index
    told = version_of_memory(shelf.tenant, await shelf.bot.put("car", "a red car"))
    await shelf.note(told.place, Item(1, False, SYNCED, 1, 1), replace(mirrored(told), model="another"))

    (item,) = (await shelf.answer("red car"))["items"]

    assert item["scores"]["dense"] == 0
    assert item["scores"]["keyword"] > 0


async def test_a_qdrant_that_ends_is_left_out_and_found_again(shelf: Shelf, tmp_path: Path) -> None:
    with packaged_qdrant(tmp_path) as server:
        host, port = urlsplit(server.address.url).hostname, server.address.grpc_port
        store = QdrantVectors(f"http://{host}:{port}")
        shelf = with_store(shelf, store)
        await store.ensure_collection(shelf.desk.collection, SCHEMA)
        await shelf.keep("car", "a red car")
        assert await shelf.recall("vehicle") == ["car"]

        server.stop()
        for _ in range(6):
            answer = await shelf.answer("vehicle")
            assert keys(answer) == ["car"]
            assert why(answer) == ["index"]
        assert "is left alone" in (await shelf.answer("vehicle"))["degraded"]["detail"]

        server.start()

        async def is_back() -> bool:
            return (await shelf.answer("vehicle"))["degraded"] is None

        await eventually(is_back, "the index is asked again")
        await store.close()


async def test_a_store_that_hangs_is_waited_for_a_moment(
    shelf: Shelf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guarded, "SEARCH_SECONDS", 0.2)
    store = EdgeVectors(tmp_path)
    shelf = with_store(shelf, store)
    await store.ensure_collection(shelf.desk.collection, SCHEMA)
    await shelf.keep("car", "a red car")
    assert store.pid is not None
    os.kill(store.pid, signal.SIGSTOP)

    answer = await shelf.answer("vehicle")

    assert keys(answer) == ["car"]
    assert why(answer) == ["index"]
    assert "takes too long" in answer["degraded"]["detail"]
    os.kill(store.pid, signal.SIGCONT)
    await store.close()


@pytest_asyncio.fixture(loop_scope="session")
async def lonely(tmp_path: Path) -> AsyncIterator[Client]:
    """A connection to a bus without a memory worker."""
    with packaged_nats(tmp_path / "lonely") as server:
        client = await connect(server.url, "lonely")
        yield client
        await client.close()


@pytest_asyncio.fixture(loop_scope="session")
async def without_memory(shelf: Shelf, lonely: Client) -> AsyncIterator[Shelf]:
    asking = Asking()
    await asking.start(lonely)
    desk = replace(shelf.desk, memories=MemoryService(asking))
    yield Shelf(desk, shelf.bot, desk.service())
    await asking.stop()


async def test_without_the_memory_service_items_are_as_they_were_indexed(without_memory: Shelf) -> None:
    shelf = without_memory
    memory = await shelf.keep(
        "car", CHUNK_BETWEEN.join(["a red car", "a blue bus"]), metadata={"n": 1}, memory_type="episodic"
    )
    await shelf.bot.ask("delete", {"namespace": NAMESPACE, "key": "car"})

    (item,) = (answer := await shelf.answer("vehicle"))["items"]

    assert why(answer) == ["memory"]
    assert (item["kind"], item["namespace"], item["key"], item["version"]) == ("memory", NAMESPACE, "car", 1)
    assert (item["value"], item["text"]) == (None, "a red car")
    assert (item["metadata"], item["memory_type"]) == ({"n": 1}, "episodic")
    assert item["updated_at"] == memory["updated_at"]


async def test_without_the_memory_service_what_is_known_to_be_gone_is_not_found(without_memory: Shelf) -> None:
    shelf = without_memory
    memory = await shelf.keep("deleted", "a red car")
    await shelf.remove(memory, 2)
    await shelf.keep("kept", "a red car")

    assert keys(await shelf.answer("vehicle")) == ["kept"]


async def test_without_the_memory_service_the_budget_counts_the_texts(without_memory: Shelf) -> None:
    shelf = without_memory
    for number in range(3):
        await shelf.keep(f"k{number}", "a red car with a long description " * 4)

    whole = await shelf.answer("red car")
    answer = await shelf.answer("red car", max_tokens=2 * estimated_tokens(whole["items"][0]["text"]))

    assert len(keys(answer)) == 2
    assert answer["cut"] == "tokens"


async def test_a_memory_service_that_hangs_is_waited_for_a_moment(
    without_memory: Shelf, lonely: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hydrating, "LONGEST_SECONDS", 0.05)

    async def hang(message: Msg) -> None:
        """Never answer."""

    await subscribe(lonely, "hive.req.*.*.memory.get_many", hang)
    await without_memory.keep("car", "a red car")

    answer = await without_memory.answer("vehicle")

    assert keys(answer) == ["car"]
    assert answer["degraded"]["detail"] == "items are as they were indexed: the memory service takes too long"


async def test_without_anything_but_the_ledger_there_is_an_answer(without_memory: Shelf, tmp_path: Path) -> None:
    store = EdgeVectors(tmp_path / "closed")
    await store.close()
    shelf = with_store(without_memory, store)
    shelf.embedder.failure = Unavailable("down", retry_after_ms=1)
    await shelf.wait(await shelf.bot.put("waits", "a red car"), error="down")
    told = version_of_memory(shelf.tenant, await shelf.bot.put("car", "another red car"))
    await shelf.mirror(told)

    answer = await shelf.answer("red")

    assert sorted(keys(answer)) == ["car", "waits"]
    assert why(answer) == ["embedder", "behind", "index", "memory"]


async def test_without_the_ledger_there_is_none(shelf: Shelf, tmp_path: Path) -> None:
    ledger = SqliteLedger(tmp_path / "vectors.db", ENTITIES)
    desk = replace(shelf.desk, ledger=ledger)

    with pytest.raises(Unavailable):
        await Shelf(desk, shelf.bot, desk.service()).answer("anything")
