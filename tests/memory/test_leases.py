"""Leases over the bus: in the order of coming, over two workers, woken and not polling, the same request again."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from hivemem_contracts.errors import Overloaded
from hivemem_contracts.subjects import encode_token
from hivemem_memory.endpoints.waiting import LeasePlace, Turn, Waiting, now_in_microseconds
from hivemem_memory.entities.leases import LEASE, Lease
from hivemem_memory.worker import build
from hivemem_runtime.bus import connection
from hivemem_runtime.ledger.places import place_of
from hivemem_runtime.ledger.port import Head
from hivemem_runtime.worker import Parts, Worker
from hivemem_testing.servers import packaged_nats

from .conftest import Deployment
from .hive import Agent, Body, Refused, eventually

pytestmark = pytest.mark.asyncio(loop_scope="session")

ROME = "project:rome"
LONG_MS = 3_600_000
WAIT_MS = 14_000


@pytest_asyncio.fixture(loop_scope="session")
async def second(deployment: Deployment) -> AsyncIterator[Worker]:
    """Another worker of the same fleet, which gets about every second request."""
    worker = build(deployment.settings)
    await worker.start()
    yield worker
    await worker.stop()


@dataclass
class Place:
    """A lease as one agent of a tenant sees it."""

    agent: Agent
    key: str | None = None

    @property
    def named(self) -> Body:
        return {"namespace": ROME} | ({} if self.key is None else {"key": self.key})

    async def acquire(self, *, id: str | None = None, ttl_ms: int = LONG_MS, wait_ms: int = 0) -> Body:
        return await self.agent.ask("lease", self.named, id=id, ttl_ms=ttl_ms, wait_ms=wait_ms)

    async def release(self, token: int, *, id: str | None = None) -> bool:
        return bool((await self.agent.ask("release", self.named, id=id, token=token))["released"])

    async def refusal(self, operation: str = "lease", **fields: Any) -> Refused:
        return await self.agent.refusal(operation, {**self.named, **fields})

    async def lease(self) -> Lease:
        head = await self.agent.ledger.head(LEASE, self.agent.tenant, place_of(ROME, self.key))
        assert head is not None
        assert head.value is not None
        return head.value

    async def waited_for_by(self, count: int) -> None:
        async def queued() -> bool:
            return len((await self.lease()).waiters) == count

        await eventually(queued, f"{count} in the queue")

    def waits(
        self, name: str = "waiter", *, id: str | None = None, ttl_ms: int = LONG_MS, wait_ms: int = WAIT_MS
    ) -> "asyncio.Task[Body]":
        """Somebody else waits from now on."""
        other = Place(self.agent.called(name), self.key)
        return asyncio.create_task(other.acquire(id=id, ttl_ms=ttl_ms, wait_ms=wait_ms))


@pytest.fixture
def place(bot: Agent) -> Place:
    return Place(bot)


def parts_of(worker: Worker) -> Parts:
    return worker._parts  # pyright: ignore[reportPrivateUsage]  # nothing but a test wants them


def waiting_in(worker: Worker) -> Waiting:
    return next(part for part in parts_of(worker).background if isinstance(part, Waiting))


async def test_a_lease_is_granted_refused_renewed_and_released(place: Place) -> None:
    granted = await place.acquire(ttl_ms=60_000)
    assert granted["token"] == 1
    refused = Place(place.agent.called("other"))
    error = await refused.refusal(ttl_ms=60_000)
    assert (error.code, error.context["holder"], error.context["waiting"]) == (40904, "bot", 0)
    assert error.context["expires_at"] == granted["expires_at"]
    renewed = await place.agent.ask("renew", place.named, token=1)
    assert (renewed["token"], renewed["expires_at"] > granted["expires_at"]) == (1, True)
    assert await place.release(1)
    assert not await place.release(1)
    assert (await refused.acquire())["token"] == 2


async def test_twenty_who_wait_at_two_workers_get_it_in_the_order_of_their_coming(
    place: Place, deployment: Deployment, second: Worker
) -> None:
    token = (await place.acquire())["token"]
    got: list[str] = []
    tokens: list[int] = []

    async def take_turn(name: str) -> None:
        other = Place(place.agent.called(name))
        granted = await other.acquire(wait_ms=WAIT_MS)
        got.append(name)
        tokens.append(granted["token"])
        assert await other.release(granted["token"])

    names = [f"waiter-{number}" for number in range(20)]
    turns: list[asyncio.Task[None]] = []
    for number, name in enumerate(names, start=1):
        turns.append(asyncio.create_task(take_turn(name)))
        await place.waited_for_by(number)
    workers = [waiting_in(worker) for worker in (deployment.worker, second)]
    await eventually(lambda: sum(waiting.waiting for waiting in workers) == 20, "all of them wait")
    assert all(waiting.waiting for waiting in workers)
    await place.release(token)
    await asyncio.gather(*turns)
    assert got == names
    assert tokens == list(range(token + 1, token + 21))
    assert (await place.lease()).change == "released"


async def test_who_waits_is_woken_by_the_release_and_asks_for_nothing_meanwhile(
    place: Place, second: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lease would go on for an hour: nothing but the feed can tell that it is free."""
    looks: list[str] = []
    for worker in (place.agent.worker, second):
        ledger = parts_of(worker).ledger
        head = ledger.head

        async def counted(*key: Any, head: Any = head) -> Head[Any] | None:
            found: Head[Any] | None = await head(*key)
            if key == (LEASE, place.agent.tenant, place_of(ROME)):
                looks.append(key[2])
            return found

        monkeypatch.setattr(ledger, "head", counted)
    token = (await place.acquire())["token"]
    waiting = place.waits()
    await eventually(lambda: len(looks) >= 1, "it looked once it stood in the queue")
    await place.agent.announced()
    await place.release(token)
    assert (await waiting)["token"] == token + 1
    # Once when it came, and at most once for each change: acquired, awaited, acquired.
    assert len(looks) <= 4


async def test_who_comes_while_an_older_lease_is_being_read_waits_on(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is read for one who waits is of a time before the other one joined: it says nothing of him."""
    token = (await place.acquire())["token"]
    ledger, head, joined = place.agent.ledger, place.agent.ledger.head, asyncio.Event()

    async def delayed(*key: Any) -> Head[Any] | None:
        found: Head[Any] | None = await head(*key)
        if key[1] == place.agent.tenant:
            await joined.wait()
        return found

    monkeypatch.setattr(ledger, "head", delayed)
    here = waiting_in(place.agent.worker)
    before = here.waiting
    first = place.waits("first")
    await eventually(lambda: here.waiting == before + 1, "the first waits")
    second = place.waits("second")
    await eventually(lambda: here.waiting == before + 2, "the second waits")
    joined.set()
    await place.release(token)
    for number, turn in enumerate((first, second), start=1):
        assert (await turn)["token"] == token + number
        await Place(place.agent.called(("first", "second")[number - 1])).release(token + number)


async def test_it_ends_by_itself_and_goes_to_who_waits(place: Place) -> None:
    await place.acquire(ttl_ms=300)
    waiting = [place.waits(f"waiter-{number}", ttl_ms=300) for number in range(3)]
    granted = await asyncio.gather(*waiting)
    assert sorted(answer["token"] for answer in granted) == [2, 3, 4]
    told = [(told.what, told.body["actor"]) for told in await place.agent.feed("lease.>")]
    assert told.count(("lease.acquired", "hivemem")) == 3


async def test_a_renewal_keeps_those_who_wait_waiting(place: Place) -> None:
    token = (await place.acquire(ttl_ms=400))["token"]
    waiting = place.waits()
    await place.waited_for_by(1)
    await place.agent.ask("renew", place.named, token=token, ttl_ms=LONG_MS)
    before = await place.lease()
    assert before.expires_at is not None
    # The timer for its first end comes by and finds that it has not ended; its second end is far away.
    await place.agent.ask("renew", place.named, token=token, ttl_ms=500)
    assert (await waiting)["token"] == token + 1


async def test_who_waits_in_vain_leaves_the_queue(place: Place) -> None:
    await place.acquire()
    error = await place.refusal(ttl_ms=1_000, wait_ms=200)
    assert (error.code, error.context["holder"], error.context["waiting"]) == (40904, "bot", 0)
    assert (await place.lease()).waiters == []
    told = [(what, version) for what, version in await place.agent.told("lease.>")]
    assert told == [("lease.acquired", 1), ("lease.awaited", 2), ("lease.awaited", 3)]


async def test_the_same_request_again_keeps_its_place_and_gets_the_same_answer(place: Place, second: Worker) -> None:
    token = (await place.acquire(id=place.agent.id("held")))["token"]
    assert (await place.acquire(id=place.agent.id("held")))["token"] == token
    id = place.agent.id("waits")
    first = place.waits(id=id)
    await place.waited_for_by(1)
    other = place.waits("other")
    await place.waited_for_by(2)
    again = [place.waits(id=id) for _ in range(4)]
    # One answer each, of the two workers: those that were overtaken by a later try hear that they were.
    done, _ = await asyncio.wait([first, *again], return_when=asyncio.FIRST_COMPLETED)
    assert all(isinstance(task.exception(), Refused) for task in done)
    await place.release(token)
    answers = [await settled(task) for task in (first, *again)]
    overtaken = [answer for answer in answers if isinstance(answer, Refused)]
    assert all(refused.error["name"] == "Unavailable" for refused in overtaken)
    granted = [answer for answer in answers if not isinstance(answer, Refused)]
    assert {answer["token"] for answer in granted} == {token + 1}
    assert (await place.lease()).waiters[0][1] == "other"
    assert await Place(place.agent.called("waiter")).release(token + 1)
    assert (await other)["token"] == token + 2
    # Long after it was given back, the answer is still the same.
    assert (await place.waits(id=id))["token"] == token + 1


async def settled(task: "asyncio.Task[Body]") -> Body | Refused:
    try:
        return await task
    except Refused as refused:
        return refused


async def test_a_try_that_comes_after_its_turn_has_passed_hears_of_it(place: Place) -> None:
    """Granted while nobody was there to hear it: the request that comes again finds the grant in the history."""
    await place.acquire(ttl_ms=200)
    id = place.agent.id("absent")
    await place.waits(id=id, ttl_ms=100)
    await Place(place.agent.called("third")).acquire(ttl_ms=LONG_MS, wait_ms=WAIT_MS)
    assert (await place.waits(id=id))["token"] == 2


async def test_a_request_that_gave_up_is_answered_the_same_when_it_comes_again(place: Place) -> None:
    await place.acquire()
    for _ in range(2):
        with pytest.raises(Refused) as refused:
            await place.waits(id=place.agent.id("in-vain"), wait_ms=100)
        assert refused.value.error["name"] == "LeaseHeld"


async def test_a_worker_that_stops_sends_away_who_waits_with_their_places_kept(
    place: Place, deployment: Deployment
) -> None:
    token = (await place.acquire())["token"]
    leaver = build(deployment.settings)
    await leaver.start()
    waiting: dict[str, asyncio.Task[Body]] = {}
    while waiting_in(leaver).waiting == 0:
        name = f"waiter-{len(waiting)}"
        waiting[name] = place.waits(name, id=name)
        await place.waited_for_by(len(waiting))
    await asyncio.wait_for(leaver.stop(), 5)
    last = list(waiting)[-1]
    refused = await settled(waiting[last])
    assert isinstance(refused, Refused)
    assert refused.error["retryable"]
    again = place.waits(last, id=last)
    await place.release(token)
    for name, task in waiting.items():
        granted = await (again if name == last else task)
        assert await Place(place.agent.called(name)).release(granted["token"])


async def test_leases_of_a_namespace_its_keys_and_other_tenants_do_not_meet(
    place: Place, deployment: Deployment
) -> None:
    stranger = Place(deployment.agent())
    for other in (place, Place(place.agent, "k"), Place(place.agent, "l"), stranger):
        assert (await other.acquire())["token"] == 1
    tokens = f"lease.{encode_token('project')}.{encode_token('rome')}"
    told = await place.agent.feed("lease.>")
    assert [change.subject.split(".", 3)[3] for change in told] == [tokens, f"{tokens}.%k.k", f"{tokens}.%k.l"]
    assert [(change.body["namespace"], change.body["key"]) for change in told] == [
        (ROME, None),
        (ROME, "k"),
        (ROME, "l"),
    ]


async def test_the_feed_tells_all_that_becomes_of_a_lease(place: Place) -> None:
    await place.acquire()
    await place.agent.ask("renew", place.named, token=1)
    waiting = place.waits()
    await place.waited_for_by(1)
    await place.release(1)
    await waiting
    await Place(place.agent.called("waiter")).release(2)
    told = await place.agent.feed("lease.>")
    assert [
        (change.what, change.body["version"], change.body["value"]["token"], change.body["value"]["waiting"])
        for change in told
    ] == [
        ("lease.acquired", 1, 1, 0),
        ("lease.renewed", 2, 1, 0),
        ("lease.awaited", 3, 1, 1),
        ("lease.acquired", 4, 2, 0),
        ("lease.released", 5, 2, 0),
    ]
    assert [change.body["value"]["holder"] for change in told] == ["bot", "bot", "bot", "waiter", None]
    assert all(change.body["cause"] for change in told)


async def test_tokens_go_on_after_the_workers_were_started_anew(place: Place, deployment: Deployment) -> None:
    await place.acquire(ttl_ms=100)
    worker = build(deployment.settings)
    await worker.start()
    await worker.stop()

    async def free() -> bool:
        try:
            return bool((await place.acquire(ttl_ms=100))["token"] == 2)
        except Refused:
            return False

    await eventually(free, "it ended")


OWN_FIELDS: dict[str, Body] = {"put": {"value": 2}, "patch": {"patch": {}}, "delete": {}, "restore": {"version": 1}}


@pytest.mark.parametrize("operation", OWN_FIELDS)
async def test_a_write_that_names_a_lease_needs_its_token(place: Place, operation: str) -> None:
    bot = place.agent
    written: Body = {"namespace": ROME, "key": "k"}
    body = written | OWN_FIELDS[operation]
    await bot.ask("put", written, value=1)
    token = (await place.acquire())["token"]
    for claim, code in (
        ({"namespace": ROME, "token": token + 1}, 40904),
        ({"namespace": "project:paris", "token": token}, 40001),
        ({"namespace": ROME, "key": "k", "token": token}, 40902),
    ):
        assert (await bot.refusal(operation, body, lease=claim)).code == code
    assert (await bot.ask(operation, body, lease={"namespace": ROME, "token": token}))["version"] == 2
    await place.release(token)
    ended = await bot.refusal("put", written, value=3, lease={"namespace": ROME, "token": token})
    assert (ended.code, ended.context) == (40902, {"expected": token, "actual": token})


async def test_a_lease_cannot_be_published(place: Place) -> None:
    await place.agent.command("lease", ROME, {"namespace": ROME, "ttl_ms": 1_000}, id=place.agent.id("published"))
    letters = await place.agent.letters(1)
    assert "no operation that can be published" in letters[0].headers["Nats-Service-Error"]


async def test_a_lease_that_could_not_be_announced_is_refused(bot: Agent) -> None:
    namespace = "project:" + "🐝" * 240
    error = await bot.refusal("lease", namespace=namespace, key="🐝" * 200, ttl_ms=1_000)
    assert (error.error["name"], error.context["field"]) == ("TooLarge", "subject")


async def test_a_worker_that_was_away_looks_for_itself_once_it_is_back(place: Place, tmp_path: Path) -> None:
    """This one hears nothing of what the fleet announces, for it is on another bus; but that bus is started again."""
    ledger = place.agent.ledger
    token = (await place.acquire())["token"]
    other = place.waits()
    await place.waited_for_by(1)
    ticket = (await place.lease()).waiters[0][0]
    with packaged_nats(tmp_path) as bus:
        client = await connection.connect(bus.url, "away")
        waiting = Waiting(ledger, 10)
        await waiting.start(client)
        there = LeasePlace.of(place.agent.tenant, ROME, None)
        turn = Turn(ticket, "waiter", "cause", 2, now_in_microseconds() + WAIT_MS * 1_000)
        granted = asyncio.create_task(waiting.until_granted(there, turn))
        await eventually(lambda: waiting.waiting == 1, "it waits")
        await place.release(token)
        assert (await other)["token"] == token + 1
        assert not granted.done()
        bus.stop()
        bus.start()
        lease = await granted
        assert lease is not None
        assert lease.token == token + 1
        await waiting.stop()
        await client.close()


async def test_so_many_may_wait_at_one_worker_and_no_more(bot: Agent) -> None:
    with pytest.raises(Overloaded) as refused:
        Waiting(bot.ledger, 0).require_room()
    assert refused.value.context == {"limit": 0, "retry_after_ms": 250}
