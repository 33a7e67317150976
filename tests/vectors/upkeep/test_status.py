"""The progress of the index for a memory, a namespace, and as a whole."""

from typing import Any

import orjson
import pytest

from hivemem_contracts.errors import InvalidRequest, Unavailable
from hivemem_contracts.identifiers import format_microseconds
from hivemem_contracts.subjects import Sender
from hivemem_contracts.vectors.operations import VECTORS
from hivemem_runtime.ledger.port import Append, Write
from hivemem_runtime.service import Call, Service
from hivemem_testing.serving import answer_of
from hivemem_vectors.pipeline.decisions.changes import version_of_event
from hivemem_vectors.pipeline.entities import FOLLOWED, Followed
from hivemem_vectors.upkeep.endpoints import status
from hivemem_vectors.upkeep.endpoints.status import StatusEndpoint

from ..tiny_embedder import DIMENSION
from ..wayward import WaywardStore
from .bench import Bench
from .cabinet import LONG_AGO, NAMESPACE, TENANT

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def ask(bench: Bench, operation: str, tenant: str = TENANT, **fields: Any) -> dict[str, Any]:
    service = Service(VECTORS, bench.ledger)
    status.bind(
        service,
        StatusEndpoint(bench.ledger, bench.store, bench.cabinet, bench.embedder, bench.indexer, bench.feed),
    )
    found = VECTORS.get(operation)
    assert found is not None
    call = Call(Sender(tenant, "bot"), found, "m1")
    answer = await answer_of(service, call, orjson.dumps(fields))
    assert not isinstance(answer, bytes)
    return answer.model_dump(mode="json")


async def named(bench: Bench, key: str, **fields: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (await ask(bench, "status", namespace=NAMESPACE, key=key, **fields))["items"]
    return found


async def pages(bench: Bench, **fields: Any) -> list[str]:
    found: list[str] = []
    cursor: dict[str, str] = {}
    while True:
        page = await ask(bench, "status", **fields, **cursor)
        assert len(page["items"]) <= fields.get("limit", 50)
        found += [f"{item['namespace']}|{item['key']}" for item in page["items"]]
        if page["cursor"] is None:
            return found
        cursor = {"cursor": page["cursor"]}


async def test_an_indexed_memory_is_synced(bench: Bench) -> None:
    await bench.remember("a")
    (item,) = await named(bench, "a")
    assert item.pop("updated_at") > format_microseconds(LONG_AGO)
    assert item == {
        "namespace": NAMESPACE,
        "key": "a",
        "version": 1,
        "indexed_version": 1,
        "state": "synced",
        "error": None,
        "attempts": 0,
    }


async def test_a_memory_that_the_index_has_not_heard_of_is_pending(bench: Bench) -> None:
    bench.cabinet.put("a", "x")
    (item,) = await named(bench, "a")
    assert item == {
        "namespace": NAMESPACE,
        "key": "a",
        "version": 1,
        "indexed_version": None,
        "state": "pending",
        "error": None,
        "attempts": 0,
        "updated_at": format_microseconds(LONG_AGO),
    }


async def test_a_memory_that_was_written_since_is_stale(bench: Bench) -> None:
    await bench.remember("a")
    bench.cabinet.put("a", "x")
    (item,) = await named(bench, "a")
    assert (item["version"], item["indexed_version"], item["state"]) == (2, 1, "stale")


async def test_a_memory_that_was_deleted_since_is_stale_and_then_synced(bench: Bench) -> None:
    await bench.remember("a")
    told = bench.cabinet.delete("a")
    (item,) = await named(bench, "a")
    assert (item["version"], item["indexed_version"], item["state"]) == (2, 1, "stale")
    await bench.tell(told)
    (item,) = await named(bench, "a")
    assert (item["version"], item["indexed_version"], item["state"]) == (2, None, "synced")
    assert await pages(bench) == []
    bench.cabinet.put("a", "x")
    (item,) = await named(bench, "a")
    assert (item["version"], item["indexed_version"], item["state"]) == (3, None, "pending")


async def test_what_nobody_knows_has_no_status(bench: Bench) -> None:
    await bench.remember("a")
    assert await named(bench, "b") == []
    assert (await ask(bench, "status", tenant="other", namespace=NAMESPACE, key="a"))["items"] == []


async def test_a_failure_says_why_and_how_often(bench: Bench) -> None:
    bench.embedder.poison = "poison"
    await bench.tell(bench.cabinet.put("a", "poison"))
    bench.embedder.is_down = True
    await bench.tell(bench.cabinet.put("b", "harmless"))
    (failed,), (pending,) = await named(bench, "a"), await named(bench, "b")
    assert (failed["state"], failed["attempts"]) == ("failed", 1)
    assert "poisoned" in failed["error"]
    assert (pending["state"], pending["attempts"]) == ("pending", 1)
    assert "down" in pending["error"]
    assert await pages(bench, state="failed") == [f"{NAMESPACE}|a"]
    assert await pages(bench, state="pending") == [f"{NAMESPACE}|b"]
    assert await pages(bench, state="synced") == []
    assert await named(bench, "a", state="pending") == []
    assert len(await named(bench, "a", state="failed")) == 1


async def test_while_memory_is_down_the_index_says_what_it_knows(bench: Bench) -> None:
    await bench.remember("a")
    bench.cabinet.is_down = True
    (item,) = await named(bench, "a")
    assert item["state"] == "synced"
    with pytest.raises(Unavailable):
        await named(bench, "b")


async def test_a_key_without_a_namespace_is_refused(bench: Bench) -> None:
    with pytest.raises(InvalidRequest) as refused:
        await ask(bench, "status", key="a")
    assert refused.value.context == {"field": "key"}


async def test_lists_come_page_by_page_in_order(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(status, "FINDS", 2)
    keys = [f"k{number}" for number in range(9)]
    for namespace in ("user:alice", "user:alice:deep", "user:alicex"):
        await bench.tell(*(bench.cabinet.put(key, key, namespace=namespace) for key in keys))
    for key in keys[2:6]:
        await bench.tell(bench.cabinet.delete(key))
    left = [f"user:alice|{key}" for key in (*keys[:2], *keys[6:])]
    others = [f"{namespace}|{key}" for namespace in ("user:alice:deep", "user:alicex") for key in keys]
    for limit in (1, 2, 3, 50):
        assert await pages(bench, limit=limit) == [*left, *others]
        assert await pages(bench, limit=limit, namespace="user:alice") == left
        assert await pages(bench, limit=limit, namespace="user:alice", state="synced") == left
        assert await pages(bench, limit=limit, state="failed") == []
    page = await ask(bench, "status", limit=1)
    with pytest.raises(InvalidRequest):
        await ask(bench, "status", cursor=page["cursor"], state="synced")


async def test_events_are_shown_in_the_namespace_of_their_session(bench: Bench) -> None:
    event: dict[str, Any] = {
        "event_id": "e1",
        "sequence": 4,
        "author": "bot",
        "at": format_microseconds(LONG_AGO),
        "metadata": {},
        "content": "said once",
    }
    followed = Append(FOLLOWED, "s1", Followed(True, since=0))
    await bench.ledger.commit(Write(TENANT, "test", FOLLOWED, "s1", lambda heads, now: [followed]))
    await bench.tell(version_of_event(TENANT, "s1", [], event))
    await bench.tell(bench.cabinet.put("e1", "a memory of the same name", namespace="session:s1"))
    assert await pages(bench, namespace="session:s1") == ["session:s1|e1", "session:s1|e1"]
    found = (await ask(bench, "status", namespace="session:s1", key="e1"))["items"]
    assert sorted(item["version"] for item in found) == [1, 4]
    bench.cabinet.put("e1", "anew", namespace="session:s1")
    found = (await ask(bench, "status", namespace="session:s1", key="e1"))["items"]
    assert sorted((item["version"], item["state"]) for item in found) == [(2, "stale"), (4, "synced")]


async def test_an_overview_counts_by_state(bench: Bench) -> None:
    await bench.remember("a", "b", "c", "gone")
    await bench.tell(bench.cabinet.delete("gone"))
    bench.embedder.poison = "poison"
    await bench.tell(bench.cabinet.put("d", "poison"))
    bench.embedder.is_down = True
    await bench.tell(bench.cabinet.put("a", "anew"), bench.cabinet.put("e", "new"))
    bench.feed.waiting = 7
    found = await ask(bench, "overview")
    embedder = found.pop("embedder")
    assert (embedder["ready"], "down" in embedder["detail"]) == (False, True)
    assert found == {
        "synced": 2,
        "pending": 1,
        "stale": 1,
        "failed": 1,
        "waiting": 7,
        "model": "tiny",
        "dimension": DIMENSION,
        "store": {"ready": True, "detail": None},
    }
    found = await ask(bench, "overview", tenant="other")
    assert (found["synced"], found["pending"]) == (0, 0)


async def test_an_overview_tells_of_a_store_that_is_away(
    bench: Bench, store: WaywardStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.is_away = True
    found = await ask(bench, "overview")
    assert found["store"] == {"ready": False, "detail": "the store is away"}
    store.is_away = False
    assert (await ask(bench, "overview"))["store"]["ready"] is True
    monkeypatch.setattr(status, "CHECK_SECONDS", 0.05)
    store.gate.clear()
    found = await ask(bench, "overview")
    assert found["store"] == {"ready": False, "detail": "the vector store takes too long"}
