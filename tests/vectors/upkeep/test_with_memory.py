"""The whole worker beside a real memory worker on a real bus: the effects of an erasure, and the answers to agents."""

import asyncio
import uuid
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest
import pytest_asyncio
from nats.aio.client import Client

from hivemem_memory.worker import MemorySettings
from hivemem_memory.worker import build as build_memory
from hivemem_runtime.ledger.places import place_of
from hivemem_runtime.ledger.port import Append, Ledger, Write
from hivemem_runtime.tokens import estimated_tokens
from hivemem_runtime.worker import Worker
from hivemem_testing import agent
from hivemem_testing.agent import Body, connect
from hivemem_testing.contract import Server
from hivemem_testing.servers import packaged_nats
from hivemem_testing.waiting import eventually
from hivemem_vectors import worker as vectors_worker
from hivemem_vectors.pipeline.decisions.points import names_of, point_name
from hivemem_vectors.pipeline.endpoints.peers import FeedPosition
from hivemem_vectors.pipeline.entities import ITEM, Item
from hivemem_vectors.stores.ports import Equal, Filter, Point
from hivemem_vectors.upkeep.entities import REMOVAL
from hivemem_vectors.worker import Model, VectorsSettings

from ..tiny_embedder import TinyEmbedder, row_of
from ..wayward import WaywardStore

pytestmark = pytest.mark.asyncio(loop_scope="module")

NAMESPACE = "user:alice"
COLLECTION = "memories"


class Remembering(agent.Agent):
    SERVICE: ClassVar[str] = "memory"


class RecallEndpoint(agent.Agent):
    SERVICE: ClassVar[str] = "vectors"


@dataclass(frozen=True)
class Fleet:
    client: Client
    memory: Worker
    vectors: Worker
    store: WaywardStore


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def fleet(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Fleet]:
    """One fleet for all tests, each with a tenant of its own, on a bus without the changes of other tests."""
    folder: Path = tmp_path_factory.mktemp("fleet")
    with packaged_nats(folder / "nats") as nats_server:
        async with running(folder, nats_server) as fleet:
            yield fleet


@asynccontextmanager
async def running(folder: Path, nats_server: Server) -> AsyncGenerator[Fleet]:
    patch = pytest.MonkeyPatch()
    stores: list[WaywardStore] = []
    open_store = vectors_worker.open_store

    def open_wayward(*arguments: Any) -> WaywardStore:
        stores.append(WaywardStore(open_store(*arguments)))
        return stores[-1]

    patch.setattr(vectors_worker, "open_store", open_wayward)
    patch.setattr(vectors_worker, "open_model", open_tiny)
    memory = build_memory(MemorySettings(nats_url=nats_server.url, store="sqlite", data=folder / "memory"))
    vectors = vectors_worker.build(VectorsSettings(nats_url=nats_server.url, store="sqlite", data=folder / "vectors"))
    patch.undo()
    await memory.start()
    await vectors.start()
    client = await connect(nats_server.url)
    yield Fleet(client, memory, vectors, stores[0])
    await client.close()
    await vectors.stop()
    await memory.stop()


def open_tiny(settings: VectorsSettings) -> Model:
    del settings
    return Model(TinyEmbedder(), estimated_tokens, 1)


class Bot:
    """An agent of a new tenant."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet
        self.tenant = f"tenant-{uuid.uuid4().hex[:12]}"
        self.memory = Remembering(fleet.client, fleet.memory, self.tenant)
        self.vectors = RecallEndpoint(fleet.client, fleet.vectors, self.tenant)

    @property
    def ledger(self) -> Ledger:
        """The ledger of the vectors worker."""
        return self.vectors.ledger

    def background(self, kind: str) -> Any:
        """Return a background part of the vectors worker, by the name of its class."""
        parts = self.fleet.vectors._parts.background  # pyright: ignore[reportPrivateUsage]  # nothing but a test wants it
        return next(part for part in parts if type(part).__name__ == kind)

    async def remember(self, *keys: str, namespace: str = NAMESPACE) -> None:
        """Write and index memories."""
        puts: list[Body] = [{"namespace": namespace, "key": key, "value": f"{key} of {namespace}"} for key in keys]
        await self.memory.ask("put_batch", puts=puts)
        for key in keys:
            await self.found(key, namespace)

    async def found(self, key: str, namespace: str = NAMESPACE) -> None:
        async def synced() -> bool:
            found = (await self.vectors.ask("status", namespace=namespace, key=key))["items"]
            return [item["state"] for item in found] == ["synced"]

        await eventually(synced, f"{key} is indexed")

    async def points(self, namespace: str = NAMESPACE) -> int:
        return await self.fleet.store.store.count(COLLECTION, Filter(self.tenant, [Equal("below", namespace)]))

    async def confirmations(self, receipt: str) -> dict[str, int]:
        found = await self.memory.ask("erasure", receipt=receipt)
        return {each["worker"]: each["removed"] for each in found["confirmed"]}

    async def confirmed(self, receipt: str, removed: int) -> None:
        async def told() -> bool:
            return (await self.confirmations(receipt)).get("vectors") == removed

        await eventually(told, "the vectors worker has confirmed the erasure")


@pytest.fixture
def bot(fleet: Fleet) -> Bot:
    return Bot(fleet)


async def test_an_erasure_is_confirmed_once_the_points_are_gone(bot: Bot) -> None:
    await bot.remember("a", "b")
    receipt = (await bot.memory.ask("erase", namespace=NAMESPACE, key="a"))["receipt"]
    await bot.confirmed(receipt, 1)
    assert await bot.points() == 1
    head = await bot.ledger.head(REMOVAL, bot.tenant, receipt)
    assert head is not None
    assert head.value is not None
    assert head.value.confirmed


async def test_an_erased_namespace_is_confirmed_as_a_whole(bot: Bot) -> None:
    keys = [f"k{number}" for number in range(150)]
    await bot.remember(*keys)
    await bot.remember("deep", namespace=f"{NAMESPACE}:deep")
    await bot.remember("other", namespace="user:alicex")
    receipt = (await bot.memory.ask("erase", namespace=NAMESPACE))["receipt"]
    await bot.confirmed(receipt, 151)
    assert (await bot.points(), await bot.points("user:alicex")) == (0, 1)


async def test_nothing_is_confirmed_while_the_store_is_away(bot: Bot) -> None:
    await bot.remember("a", "b")
    bot.fleet.store.is_away = True
    try:
        receipt = (await bot.memory.ask("erase", namespace=NAMESPACE, key="a"))["receipt"]

        async def gone() -> bool:
            head = await bot.ledger.head(ITEM, bot.tenant, place_of(NAMESPACE, "a"))
            return head is not None and head.value is not None and head.value.gone

        await eventually(gone, "the index has heard of it")
        assert (await bot.vectors.ask("status", namespace=NAMESPACE, key="b"))["items"][0]["state"] == "synced"
        assert "vectors" not in await bot.confirmations(receipt)
        assert await bot.points() == 2
    finally:
        bot.fleet.store.is_away = False
    await bot.confirmed(receipt, 1)
    assert await bot.points() == 1


async def test_what_a_crash_left_behind_is_gone_before_the_confirmation(bot: Bot) -> None:
    await bot.remember("a")
    place = place_of(NAMESPACE, "a")
    left = Point(bot.tenant, point_name(place, 1, 9), row_of("x"), None, {"place": place, "below": ["user", NAMESPACE]})
    await bot.fleet.store.upsert(COLLECTION, [left])
    assert await bot.points() == 2
    receipt = (await bot.memory.ask("erase", namespace=NAMESPACE))["receipt"]
    await bot.confirmed(receipt, 1)
    assert await bot.points() == 0


async def test_what_is_written_anew_stays_when_the_erasure_before_it_is_confirmed(bot: Bot) -> None:
    await bot.remember("a", "b")
    receipt = (await bot.memory.ask("erase", namespace=NAMESPACE))["receipt"]
    await bot.memory.ask("put", namespace=NAMESPACE, key="a", value="anew")
    await bot.confirmed(receipt, 2)
    await bot.found("a")
    assert await bot.points() == 1


async def test_an_overview_says_what_waits_on_the_feed(bot: Bot) -> None:
    await bot.remember("a", "b")
    found = await bot.vectors.ask("overview")
    assert (found["synced"], found["waiting"], found["store"]["ready"]) == (2, 0, True)


async def test_a_change_that_was_lost_is_made_up_for_by_a_sweep(bot: Bot, monkeypatch: pytest.MonkeyPatch) -> None:
    await bot.remember("a", "b")
    lost = Item(0, False, "synced")
    append = Append(ITEM, place_of(NAMESPACE, "a"), lost)
    await bot.ledger.commit(Write(bot.tenant, "test", ITEM, append.id, lambda heads, now: [append]))
    await bot.fleet.store.delete(COLLECTION, bot.tenant, names_of(place_of(NAMESPACE, "a"), 1, 1))
    found = await sweep(bot, dry_run=False)
    assert found == (2, 0, 0)
    backlog: FeedPosition = bot.background("FeedPosition")
    reaches = backlog.reaches_back_to

    async def in_an_hour() -> int:
        return await reaches() + 3_600_000_000

    monkeypatch.setattr(backlog, "reaches_back_to", in_an_hour)
    assert await sweep(bot, dry_run=True) == (2, 1, 0)
    assert await sweep(bot, dry_run=False) == (2, 1, 0)
    assert await sweep(bot, dry_run=False) == (2, 0, 0)
    assert await bot.points() == 2


async def sweep(bot: Bot, *, dry_run: bool) -> tuple[int, int, int]:
    whole = [0, 0, 0]
    cursor: Body = {}
    while True:
        page: dict[str, Any] = await bot.vectors.ask("sweep", dry_run=dry_run, **cursor)
        for at, name in enumerate(("checked", "missing", "left_over")):
            whole[at] += page[name]
        if page["cursor"] is None:
            return whole[0], whole[1], whole[2]
        cursor = {"cursor": page["cursor"]}


async def test_own_vectors_are_asked_for_on_the_bus(bot: Bot) -> None:
    mine: Body = {"collection": "mine"}
    stored = await bot.vectors.ask("store", {"id": "v1", "embedding": [1, 0], "metadata": {"n": 1}, **mine})
    assert stored == {"id": "v1", "collection": "mine", "version": 1, "duplicate": False}
    body: Body = {"id": "v2", "embedding": [0, 1], **mine}
    await bot.vectors.command("store", "mine", body, id=bot.vectors.id("c1"))

    async def there() -> bool:
        found = await bot.vectors.ask("query", embedding=[1, 0.1], collection="mine")
        return [item["id"] for item in found["items"]] == ["v1", "v2"]

    await eventually(there, "what was published is found")

    async def indexed() -> bool:
        return await bot.fleet.store.count("vectors-2", Filter(bot.tenant)) == 2

    await eventually(indexed, "the clock has brought it to the index")
    refused = await bot.vectors.refusal("query", embedding=[1, 0, 0], collection="mine")
    assert (refused.code, refused.context["expected"], refused.context["actual"]) == (40001, 2, 3)
    assert (await bot.vectors.refusal("query", embedding=[1], collection="never")).code == 40401
    assert (await bot.vectors.ask("delete", {"id": "v1", **mine}))["deleted"] is True
    answers = await asyncio.gather(*(bot.vectors.ask("delete", {"id": "v1", **mine}) for _ in range(3)))
    assert [answer["deleted"] for answer in answers] == [False] * 3


async def test_a_lost_collection_comes_back_and_hides_nothing_meanwhile(bot: Bot) -> None:
    await bot.remember("a", "b")
    await bot.vectors.ask("store", {"id": "v1", "embedding": [1, 0]})
    for collection in (COLLECTION, "vectors-2"):
        await bot.fleet.store.drop_collection(collection)
    whole = False

    async def filled() -> bool:
        nonlocal whole
        recalled = await bot.vectors.ask("recall", query="a of user:alice")
        assert {item["key"] for item in recalled["items"]} == {"a", "b"}
        found = await bot.vectors.ask("query", embedding=[1, 0])
        assert [item["id"] for item in found["items"]] == ["v1"]
        whole = recalled["degraded"] is None
        return whole and await bot.fleet.store.count("vectors-2", Filter(bot.tenant)) == 1

    assert not await filled()
    await eventually(filled, "the index has everything again")
    assert await bot.points() == 2
