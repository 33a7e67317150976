"""The chain includes the feed's changes in order and once, however many workers share the work."""

import asyncio
import random
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import orjson
import pytest
from nats.aio.client import Client

from hivemem_contracts.changes import Change
from hivemem_contracts.errors import Unavailable
from hivemem_contracts.streams import CHANGES
from hivemem_memory.decisions.audit_chain import FeedMark, LinkBatch, link_changes
from hivemem_memory.endpoints.audit_trail import AuditTrail
from hivemem_memory.endpoints.chain_links import read_mark
from hivemem_memory.entities import ENTITIES
from hivemem_memory.entities.audit import CHAIN, CHAIN_ID, ChainHead
from hivemem_memory.entities.memories import memory_address
from hivemem_memory.reactions import audit_feed
from hivemem_memory.reactions.audit_feed import FeedLinker
from hivemem_memory.worker import MemorySettings
from hivemem_runtime.bus.connection import connect
from hivemem_runtime.bus.feed.reading import FeedReading
from hivemem_runtime.bus.jetstream import ask
from hivemem_runtime.bus.reactions.runner import ReceivedChange
from hivemem_runtime.bus.streams import StreamSettings, declare
from hivemem_runtime.ledger.opening import open_ledger
from hivemem_runtime.ledger.port import Head, Ledger
from hivemem_testing.feed import announced
from hivemem_testing.process import ProcessServer
from hivemem_testing.servers import packaged_nats
from hivemem_testing.stores import STORES

from .hive import NAMESPACE

TENANT = "a tenant"


class CaughtUp:
    async def caught_up(self) -> None:
        """Return at once, because only the tests announce changes here."""


@pytest.fixture(scope="module")
def bus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProcessServer]:
    with packaged_nats(tmp_path_factory.mktemp("bus")) as server:
        yield server


@pytest.fixture
async def client(bus: ProcessServer) -> AsyncIterator[Client]:
    client = await connect(bus.url, "tests")
    await declare(client, StreamSettings())
    await make_anew(client)
    yield client
    await client.close()


@pytest.fixture(params=STORES)
async def ledger(request: pytest.FixtureRequest) -> AsyncIterator[Ledger]:
    settings = STORES[request.param](request, "chain")
    ledger = open_ledger(MemorySettings(**next(settings)), ENTITIES, "memory")
    await ledger.open()
    yield ledger
    await ledger.close()
    assert next(settings, None) is None


async def make_anew(client: Client) -> None:
    await ask(client, f"STREAM.DELETE.{CHANGES}")
    await declare(client, StreamSettings())


class Workers:
    """Workers that each track the progress of the feed on their own."""

    def __init__(self, ledger: Ledger, client: Client) -> None:
        self._ledger = ledger
        self._client = client
        self._deliveries = 0

    async def start(self) -> FeedLinker:
        trail = AuditTrail(self._ledger, CaughtUp())
        await trail.start(self._client)
        return FeedLinker(self._ledger, trail)

    def deliver(self, changes: Sequence[ReceivedChange]) -> list[ReceivedChange]:
        """Return the same changes as the consumer delivers them now."""
        first = self._deliveries + 1
        self._deliveries += len(changes)
        return [replace(each, delivery=first + place) for place, each in enumerate(changes)]


@pytest.fixture
def workers(ledger: Ledger, client: Client) -> Workers:
    return Workers(ledger, client)


async def tell(
    client: Client, key: str, version: int, tenant: str = TENANT, at: datetime | None = None
) -> ReceivedChange:
    change = Change(
        entity="memory",
        operation="put",
        tenant=tenant,
        namespace=NAMESPACE,
        key=key,
        version=version,
        previous_version=version - 1 or None,
        value={"digest": f"{key}{version}"},
        actor="bot",
        cause=f"m{version}",
        at=at or datetime.now(UTC),
    )
    subject, body, headers = await announced(client, change, memory_address(NAMESPACE, key))
    answer = await client.request(subject, body, timeout=10, headers=headers)
    sequence = int(orjson.loads(answer.data)["seq"])
    stored = await FeedReading(client).next(subject, sequence - 1)
    assert stored is not None
    return ReceivedChange(change, subject, sequence, 0, {}, stored_at=stored.stored_at)


async def tell_many(client: Client, count: int, tenant: str = TENANT) -> list[ReceivedChange]:
    return [await tell(client, "a", version, tenant) for version in range(1, count + 1)]


async def linked(ledger: Ledger, tenant: str = TENANT) -> list[int]:
    records = await ledger.history(CHAIN, tenant, CHAIN_ID, limit=10_000)
    assert [record.value.position for record in records] == list(range(1, len(records) + 1))
    return [record.value.to_version or 0 for record in records]


async def test_a_batch_is_taken_up_in_its_order(ledger: Ledger, client: Client, workers: Workers) -> None:
    worker = await workers.start()
    told = await tell_many(client, 20)
    for start in (0, 5):
        await worker.handle(workers.deliver(told[start : start + 5]))
    await worker.handle(workers.deliver(told[10:]))
    assert await linked(ledger) == list(range(1, 21))


async def test_what_comes_again_is_not_taken_up_again(ledger: Ledger, client: Client, workers: Workers) -> None:
    worker, other = await workers.start(), await workers.start()
    told = await tell_many(client, 10)
    await worker.handle(workers.deliver(told[:6]))
    for each in (worker, other):
        await each.handle(workers.deliver(told[:6]))
        await each.handle(workers.deliver(told[3:8]))
        await each.handle(workers.deliver(told))
    assert await linked(ledger) == list(range(1, 11))


async def test_what_a_dead_worker_had_got_is_read_from_the_feed(
    ledger: Ledger, client: Client, workers: Workers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit_feed, "OTHERS_SECONDS", 0.1)
    monkeypatch.setattr(audit_feed, "BATCH", 3)
    worker = await workers.start()
    told = await tell_many(client, 12)
    lost = workers.deliver(told[:10])
    await worker.handle(workers.deliver(told[10:]))
    assert await linked(ledger) == list(range(1, 13))
    # It is redelivered at the end, to any worker.
    await worker.handle(workers.deliver([each for each in told if each.sequence <= lost[-1].sequence]))
    assert await linked(ledger) == list(range(1, 13))


async def test_what_a_slow_worker_has_got_is_waited_for(
    ledger: Ledger, client: Client, workers: Workers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit_feed, "OTHERS_SECONDS", 30.0)
    slow, quick = await workers.start(), await workers.start()
    told = await tell_many(client, 10)
    first, second = workers.deliver(told[:7]), workers.deliver(told[7:])
    ahead = asyncio.create_task(quick.handle(second))
    await asyncio.sleep(0)
    await slow.handle(first)
    async with asyncio.timeout(10):
        await ahead
    assert await linked(ledger) == list(range(1, 11))


@pytest.mark.parametrize("others_seconds", [0, 30.0], ids=["dead", "slow"])
async def test_what_another_worker_got_in_the_middle_of_a_batch_is_not_passed_over(
    ledger: Ledger, client: Client, workers: Workers, monkeypatch: pytest.MonkeyPatch, others_seconds: float
) -> None:
    """Two pending pulls get the next messages in turn, and then all messages that have arrived by then."""
    monkeypatch.setattr(audit_feed, "OTHERS_SECONDS", others_seconds)
    worker, other = await workers.start(), await workers.start()
    told = workers.deliver(await tell_many(client, 10))
    mine = asyncio.create_task(worker.handle([*told[:2], told[3], *told[6:]]))
    await asyncio.sleep(0)
    for each in (told[2:3], told[4:6]):
        await other.handle(each)
    async with asyncio.timeout(10):
        await mine
    assert await linked(ledger) == list(range(1, 11))


async def test_what_comes_again_does_not_vouch_for_what_follows_it(
    ledger: Ledger, client: Client, workers: Workers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit_feed, "OTHERS_SECONDS", 0)
    worker = await workers.start()
    told = workers.deliver(await tell_many(client, 8))
    again = [replace(each, again=True) for each in workers.deliver(told[:3])]
    following = workers.deliver(told[6:])
    assert following[0].delivery == again[-1].delivery + 1
    await worker.handle([*again, *following])
    assert await linked(ledger) == list(range(1, 9))


async def test_a_worker_that_was_frozen_adds_nothing(
    ledger: Ledger, client: Client, workers: Workers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit_feed, "OTHERS_SECONDS", 0)
    frozen, other = await workers.start(), await workers.start()
    told = await tell_many(client, 10)
    await frozen.handle(workers.deliver(told[:2]))
    kept = workers.deliver(told[2:5])
    await other.handle(workers.deliver(told[5:8]))
    await frozen.handle(kept)
    await frozen.handle(workers.deliver(told[8:]))
    assert await linked(ledger) == list(range(1, 11))


async def test_each_tenant_has_a_chain_of_its_own(ledger: Ledger, client: Client, workers: Workers) -> None:
    worker = await workers.start()
    told: list[ReceivedChange] = []
    for version in range(1, 6):
        told += [await tell(client, "a", version, tenant) for tenant in ("one", "two.three", "*")]
    await worker.handle(workers.deliver(told))
    for tenant in ("one", "two.three", "*"):
        assert await linked(ledger, tenant) == [1, 2, 3, 4, 5]


async def test_what_is_no_change_holds_nothing_up(
    ledger: Ledger, client: Client, workers: Workers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit_feed, "OTHERS_SECONDS", 0)
    worker = await workers.start()
    told = await tell_many(client, 2)
    for _ in range(3):
        await client.request(told[0].subject, b"nonsense", timeout=10)
    last = await tell(client, "a", 3)
    await worker.handle(workers.deliver([last]))
    assert await linked(ledger) == [1, 2, 3]


async def test_a_feed_that_was_made_anew_is_taken_up_from_its_beginning(
    ledger: Ledger, client: Client, workers: Workers
) -> None:
    worker = await workers.start()
    await worker.handle(workers.deliver(await tell_many(client, 5)))
    await make_anew(client)
    anew = await tell_many(client, 7)
    other = await workers.start()
    for start in (0, 3):
        await other.handle(workers.deliver(anew[start : start + 3]))
    assert (await read_mark(ledger, TENANT)).sequence == anew[-1].sequence
    assert await linked(ledger) == [1, 2, 3, 4, 5, 6, 7]


@pytest.mark.parametrize("seed", range(6))
async def test_any_number_of_workers_in_any_order_make_the_same_chain(
    ledger: Ledger, client: Client, workers: Workers, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.setattr(audit_feed, "OTHERS_SECONDS", 0.02)
    chance = random.Random(seed)
    told = await tell_many(client, 40)
    team = [await workers.start() for _ in range(3)]
    under_way: list[asyncio.Task[None]] = []
    start = 0
    while start < len(told):
        end = start + chance.randint(1, 6)
        batch = workers.deliver(told[start:end])
        fate = chance.random()
        if fate < 0.7:
            under_way.append(asyncio.create_task(chance.choice(team).handle(batch)))
        if fate < 0.2 or fate > 0.9:
            under_way.append(asyncio.create_task(chance.choice(team).handle(workers.deliver(told[start:end]))))
        if chance.random() < 0.3:
            await asyncio.gather(*under_way)
        start = end
    await asyncio.gather(*under_way)
    await team[0].handle(workers.deliver(told[-1:]))
    assert await linked(ledger) == list(range(1, 41))


def test_a_chain_is_never_taken_further_than_it_may() -> None:
    def heads(entity: Any, id: str) -> Any:
        return Head(CHAIN_ID, 3, 1, ChainHead(3, "h", "feed", 7)) if entity is CHAIN else None

    def taking(feed: str, after: FeedMark, through: int) -> LinkBatch:
        return LinkBatch(feed, after, [], through, {})

    with pytest.raises(Unavailable):
        link_changes(heads, taking("feed", FeedMark("feed", 8), 8), 1)
    assert link_changes(heads, taking("feed", FeedMark("feed", 7), 7), 1) == []
    with pytest.raises(Unavailable):
        link_changes(heads, taking("another feed", FeedMark("another feed", 1), 1), 1)
    with pytest.raises(Unavailable):
        link_changes(heads, taking("another feed", FeedMark("feed", 6), 1), 1)
