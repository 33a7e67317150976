"""After the feed lost messages and announces them again at other sequences, each version has one link."""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from nats.aio.client import Client

from hivemem_contracts.errors import Unavailable
from hivemem_contracts.memory.replies import AuditVerified
from hivemem_contracts.streams import CHANGES
from hivemem_memory.decisions.audit_chain import AuditedWrite, FeedMark, LinkBatch, link_changes
from hivemem_memory.endpoints import audit_trail as endpoints
from hivemem_memory.endpoints import unlinked_memories
from hivemem_memory.endpoints.audit_trail import AuditTrail
from hivemem_memory.endpoints.chain_links import linked_versions, read_mark
from hivemem_memory.endpoints.chain_verification import ChainVerification
from hivemem_memory.endpoints.unlinked_memories import is_on_its_way
from hivemem_memory.entities import ENTITIES
from hivemem_memory.entities.audit import CHAIN, CHAIN_ID
from hivemem_memory.entities.memories import MEMORY, MemoryRecord
from hivemem_memory.reactions import audit_feed
from hivemem_memory.worker import MemorySettings, build
from hivemem_runtime.bus.connection import connect
from hivemem_runtime.bus.feed.reading import FeedReading
from hivemem_runtime.bus.jetstream import ask
from hivemem_runtime.bus.reactions.runner import ReceivedChange
from hivemem_runtime.bus.streams import StreamSettings, declare
from hivemem_runtime.ledger.opening import open_ledger
from hivemem_runtime.ledger.places import place_of
from hivemem_runtime.ledger.port import Append, Ledger, Outcome, Write
from hivemem_testing.agent import connect as connect_agent
from hivemem_testing.servers import packaged_nats

from .hive import NAMESPACE, Agent, eventually
from .lossy import LossyBus, begin_epoch
from .test_audit_feed import TENANT, CaughtUp, Workers, make_anew, tell


@pytest.fixture
async def bus(tmp_path: Path) -> AsyncIterator[LossyBus]:
    with packaged_nats(tmp_path / "bus") as server:
        yield LossyBus(server, tmp_path / "bus")


@pytest.fixture
async def client(bus: LossyBus) -> AsyncIterator[Client]:
    client = await connect(bus.server.url, "tests")
    await declare(client, StreamSettings())
    yield client
    await client.close()


@pytest.fixture
async def ledger(tmp_path: Path) -> AsyncIterator[Ledger]:
    ledger = open_ledger(MemorySettings(store="sqlite", data=tmp_path / "ledger"), ENTITIES, "memory")
    await ledger.open()
    yield ledger
    await ledger.close()


@pytest.fixture
def workers(ledger: Ledger, client: Client) -> Workers:
    return Workers(ledger, client)


async def linked(ledger: Ledger) -> list[str]:
    """Return key and version of each link, in the order of the chain."""
    records = await ledger.history(CHAIN, TENANT, CHAIN_ID, limit=10_000)
    return [f"{record.value.key}{record.value.to_version}" for record in records]


async def tell_all(client: Client, *names: str) -> list[ReceivedChange]:
    return [await tell(client, name[0], int(name[1:])) for name in names]


async def is_back(client: Client) -> None:
    async def answers() -> bool:
        try:
            await ask(client, f"STREAM.INFO.{CHANGES}", timeout_seconds=0.5)
        except Unavailable:
            return False
        return True

    await eventually(answers, "the feed is there again")


async def test_sequences_that_are_handed_out_again_are_taken_up(
    ledger: Ledger, client: Client, bus: LossyBus, workers: Workers
) -> None:
    worker = await workers.start()
    told = await tell_all(client, "a1", "a2")
    await worker.handle(workers.deliver(told))
    bus.keep()
    await is_back(client)
    lost = await tell_all(client, "a3", "a4")
    await worker.handle(workers.deliver(lost))
    bus.lose()
    await is_back(client)
    await begin_epoch(client, "2")
    again = await tell_all(client, "b1", "a3", "a4", "a5")
    assert again[0].sequence == lost[0].sequence
    await worker.handle(workers.deliver(again[:2]))
    await worker.handle(workers.deliver(again[2:]))
    assert await linked(ledger) == ["a1", "a2", "a3", "a4", "b1", "a5"]


async def test_what_was_received_before_the_loss_stands_for_nothing(
    ledger: Ledger, client: Client, bus: LossyBus, workers: Workers
) -> None:
    """Other changes reuse its sequences by now, and must not count as linked."""
    worker, other = await workers.start(), await workers.start()
    await worker.handle(workers.deliver(await tell_all(client, "a1")))
    bus.keep()
    await is_back(client)
    lost = await tell_all(client, "a2", "a3", "a4")
    bus.lose()
    await is_back(client)
    await begin_epoch(client, "2")
    again = await tell_all(client, "b1", "b2")
    await other.handle(workers.deliver(again))
    await worker.handle(workers.deliver(lost))
    again = await tell_all(client, "a2", "b3", "a3", "a4")
    await worker.handle(workers.deliver(lost[1:]))
    await other.handle(workers.deliver(again))
    assert await linked(ledger) == ["a1", "b1", "b2", "a2", "b3", "a3", "a4"]


async def test_a_feed_of_which_everything_is_known_is_read_once(
    ledger: Ledger, client: Client, workers: Workers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit_feed, "BATCH", 2)
    names = [f"a{version}" for version in range(1, 8)]
    worker = await workers.start()
    await worker.handle(workers.deliver(await tell_all(client, *names)))
    await make_anew(client)
    anew = await tell_all(client, *names)
    await worker.handle(workers.deliver(anew[-1:]))
    mark = await read_mark(ledger, TENANT)
    assert (mark.feed, mark.sequence) == (await FeedReading(client).identity(), anew[-1].sequence)
    assert await linked(ledger) == names


async def test_a_feed_that_a_worker_told_with_a_clock_far_ahead_is_linked_once(
    ledger: Ledger, client: Client, workers: Workers
) -> None:
    ahead = datetime.now(UTC) + timedelta(hours=1)
    worker = await workers.start()
    await worker.handle(workers.deliver([await tell(client, "a", version, at=ahead) for version in (1, 2)]))
    await make_anew(client)
    for version in (1, 2):
        await worker.handle(workers.deliver([await tell(client, "a", version, at=ahead)]))
    assert await linked(ledger) == ["a1", "a2"]


async def test_two_workers_do_not_link_a_doubtful_version_twice(ledger: Ledger) -> None:
    """Both have looked before either of them has linked it."""
    done = AuditedWrite(1, 5, "bot", "put", NAMESPACE, "a", None, 1, None, "d")

    async def commit(feed: str, after: FeedMark, change: AuditedWrite) -> None:
        place = place_of(NAMESPACE, "a")
        taking = LinkBatch(feed, after, [change], change.sequence, await linked_versions(ledger, TENANT, [place]))
        await ledger.commit(
            Write(TENANT, "hivemem", CHAIN, CHAIN_ID, lambda heads, now: link_changes(heads, taking, now))
        )

    await commit("one", FeedMark(), done)
    mark = await read_mark(ledger, TENANT)
    second = done._replace(from_version=1, to_version=2)
    outcomes = await asyncio.gather(
        *(commit("two", mark, second._replace(sequence=sequence)) for sequence in (3, 4)), return_exceptions=True
    )
    assert [type(outcome).__name__ for outcome in outcomes] == ["NoneType", "Unavailable"]
    await commit("two", await read_mark(ledger, TENANT), second._replace(sequence=4))
    assert await linked(ledger) == ["a1", "a2"]


async def test_what_is_no_change_of_a_memory_holds_nothing_up(ledger: Ledger, client: Client, workers: Workers) -> None:
    worker = await workers.start()
    first, *others = await tell_all(client, "a1", "a3", "a2", "a4")
    forged: list[ReceivedChange] = [
        replace(first, change=first.change.model_copy(update=update))
        for update in (
            {"entity": "nothing"},
            {"tenant": "another tenant"},
            {"key": None},
            {"version": -3},
            {"value": [1], "version": 1},
            {"value": {"digest": 7}, "version": 1},
        )
    ]
    await worker.handle(workers.deliver([*forged, replace(first, subject="hive.chg.%zz.memory.x"), *others]))
    assert await linked(ledger) == ["a1", "a3", "a4"]


def commit_memory(ledger: Ledger, key: str) -> Awaitable[Outcome]:
    record = MemoryRecord("put", 1, "fact", {}, "digest", "bot")
    place = place_of(NAMESPACE, key)
    return ledger.commit(Write(TENANT, "bot", MEMORY, place, lambda heads, now: [Append(MEMORY, place, record)]))


async def link(ledger: Ledger, outcome: Outcome, sequence: int) -> None:
    """Link the version of a memory that a commit has made."""
    assert outcome.stamp is not None
    at, version = outcome.stamp.at, outcome.stamp.version
    done = AuditedWrite(sequence, at, "bot", "put", NAMESPACE, "a", version - 1 or None, version, None, None)
    taking = LinkBatch("feed", await read_mark(ledger, TENANT), [done], sequence, {})
    await ledger.commit(Write(TENANT, "hivemem", CHAIN, CHAIN_ID, lambda heads, now: link_changes(heads, taking, now)))


async def verified(ledger: Ledger) -> AuditVerified:
    async def current() -> bool:
        return True

    return await ChainVerification(ledger, TENANT, current).run(None)


async def test_first_versions_without_a_link_are_found(ledger: Ledger) -> None:
    await commit_memory(ledger, "a")
    await link(ledger, await commit_memory(ledger, "a"), 1)
    found = await verified(ledger)
    assert (found.ok, found.broken_at) == (False, 1)
    assert found.problem == "the chain has no link of the memory's version 1"


async def test_versions_that_were_erased_need_no_link(ledger: Ledger) -> None:
    place = place_of(NAMESPACE, "a")
    await commit_memory(ledger, "a")
    ledger.announced(MEMORY.name, TENANT, place, 1)
    await ledger.erase(MEMORY, TENANT, place, actor="bot", cause=None)
    ledger.announced(MEMORY.name, TENANT, place, 2)
    await link(ledger, await commit_memory(ledger, "a"), 1)
    await link(ledger, await commit_memory(ledger, "a"), 2)
    found = await verified(ledger)
    assert (found.ok, found.checked, found.memories, found.cursor) == (True, 2, 1, None), found


async def test_what_is_not_announced_yet_is_not_in_the_chain_either(
    ledger: Ledger, client: Client, workers: Workers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worker that committed it may be dead, and no other has announced it."""
    monkeypatch.setattr(endpoints, "CATCH_UP_SECONDS", 0.0)
    monkeypatch.setattr(endpoints, "NEWEST", 0)
    trail = AuditTrail(ledger, CaughtUp())
    await trail.start(client)
    assert await trail.behind(TENANT) == 0
    for key in "ab":
        await commit_memory(ledger, key)
    assert await trail.behind(TENANT) == 2
    assert await trail.behind("another tenant") == 0
    with monkeypatch.context() as patched:
        patched.setattr(endpoints, "DUE", 1)
        assert await trail.behind(TENANT) == 2
        patched.setattr(endpoints, "RECENT", 1)
        assert await trail.behind(TENANT) >= 1
    worker = await workers.start()
    await worker.handle(workers.deliver(await tell_all(client, "a1")))
    assert await trail.behind(TENANT) == 1
    await worker.handle(workers.deliver(await tell_all(client, "b1")))
    assert await trail.behind(TENANT) == 0


async def test_what_was_written_long_ago_is_on_its_way_while_it_is_not_announced(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = place_of(NAMESPACE, "a")
    outcome = await commit_memory(ledger, "a")
    assert outcome.stamp is not None
    at = outcome.stamp.at
    assert await is_on_its_way(ledger, TENANT, place, 2, at)
    monkeypatch.setattr(unlinked_memories, "UNANNOUNCED_MICROSECONDS", 0)
    assert await is_on_its_way(ledger, TENANT, place, 1, at)
    assert not await is_on_its_way(ledger, TENANT, place, 2, at)
    ledger.announced(MEMORY.name, TENANT, place, 1)
    assert not await is_on_its_way(ledger, TENANT, place, 1, at)


class Telling:
    """The versions that were written, and the versions on the feed."""

    def __init__(self, client: Client, bus: LossyBus, chance: random.Random) -> None:
        self.versions = dict.fromkeys("abc", 0)
        self._on_feed = dict(self.versions)
        self._kept = dict(self.versions)
        self._client = client
        self._bus = bus
        self._chance = chance

    @property
    def is_complete(self) -> bool:
        return self._on_feed == self.versions

    async def tell(self, count: int) -> list[ReceivedChange]:
        """Announce lost versions first, then new ones, with the keys in any order."""
        told: list[ReceivedChange] = []
        for _ in range(count):
            key = self._chance.choice("abc")
            self._on_feed[key] += 1
            self.versions[key] = max(self.versions[key], self._on_feed[key])
            told.append(await tell(self._client, key, self._on_feed[key]))
        return told

    async def keep(self) -> None:
        self._bus.keep()
        await is_back(self._client)
        self._kept = dict(self._on_feed)

    async def lose(self, epoch: str) -> None:
        if self._chance.random() < 0.3:
            await make_anew(self._client)
            self._on_feed = dict.fromkeys("abc", 0)
        else:
            self._bus.lose()
            await is_back(self._client)
            await begin_epoch(self._client, epoch)
            self._on_feed = dict(self._kept)


@pytest.mark.parametrize("seed", range(3))
async def test_any_losses_leave_one_link_for_each_version(
    ledger: Ledger, client: Client, bus: LossyBus, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Changes are lost and announced again with keys in any order; batches arrive late, twice, or never."""
    monkeypatch.setattr(audit_feed, "OTHERS_SECONDS", 0.0)
    chance = random.Random(seed)
    telling = Telling(client, bus, chance)
    workers = Workers(ledger, client)
    team = [await workers.start() for _ in range(2)]
    in_hand: list[ReceivedChange] = []
    for epoch in range(3):
        if epoch:
            await telling.lose(f"{seed}-{epoch}")
            await chance.choice(team).handle(workers.deliver(in_hand))
        for turn in range(5):
            if turn == 2:
                await telling.keep()
            in_hand = await telling.tell(chance.randint(1, 6))
            if chance.random() < 0.7:
                await chance.choice(team).handle(workers.deliver(in_hand))
    while not telling.is_complete:
        in_hand = await telling.tell(1)
    await team[0].handle(workers.deliver(in_hand))
    links = await linked(ledger)
    for key, newest in telling.versions.items():
        assert [name for name in links if name[0] == key] == [f"{key}{version}" for version in range(1, newest + 1)]


async def test_each_write_has_one_link_after_the_feed_was_put_back(
    bus: LossyBus, client: Client, tmp_path: Path
) -> None:
    """The feed was restored while no worker ran, and reuses the sequences that the chain has processed."""
    settings = MemorySettings(nats_url=bus.server.url, store="sqlite", data=tmp_path / "memory")
    worker = build(settings)
    await worker.start()
    agents = await connect_agent(bus.server.url)
    bot = Agent(agents, worker, "tenant", "bot")

    async def current() -> bool:
        return bool((await bot.ask("audit", limit=1))["behind"] == 0)

    try:
        await bot.put("a", 1)
        await eventually(current, "the chain has it")
        bus.keep()
        await is_back(client)
        for turn in range(4):
            await bot.put("a", turn)
        await eventually(current, "the chain has all of it")
        await worker.stop()
        bus.lose()
        await is_back(client)
        worker = build(settings)
        await worker.start()
        bot = Agent(agents, worker, "tenant", "bot")
        for key in ("w", "x", "y", "z"):
            await bot.put(key, 1)
        await eventually(current, "the chain has all of it again")
        found: dict[str, Any] = await bot.ask("audit_verify")
        assert (found["ok"], found["checked"]) == (True, 9), found
    finally:
        await agents.close()
        await worker.stop()
