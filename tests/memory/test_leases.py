"""Leases over the bus: first come first served over two workers, woken without polling, retries are idempotent."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from hivemem_contracts.subjects import encode_token
from hivemem_memory.entities.leases import LEASE
from hivemem_memory.worker import build
from hivemem_runtime.ledger.places import place_of
from hivemem_runtime.ledger.port import Head
from hivemem_runtime.worker import Worker

from .conftest import Deployment
from .hive import Agent, Body, Refused, eventually
from .leasing import LONG_MS, ROME, WAIT_MS, Place, parts_of, waiting_in

pytestmark = pytest.mark.asyncio(loop_scope="session")


@pytest_asyncio.fixture(loop_scope="session")
async def second(deployment: Deployment) -> AsyncIterator[Worker]:
    """A second worker of the same fleet, which gets about every second request."""
    worker = build(deployment.settings)
    await worker.start()
    yield worker
    await worker.stop()


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
    """The lease would last for an hour, so only the feed can tell that it is free."""
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
    # Once on arrival, and at most once for each change: acquired, awaited, acquired.
    assert len(looks) <= 4


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
    # The timer for its first end fires and finds the lease renewed; its second end is far away.
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
    # Each try gets one answer from the two workers; tries overtaken by a later one get a refusal.
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
    # The answer is the same long after the release.
    assert (await place.waits(id=id))["token"] == token + 1


async def settled(task: "asyncio.Task[Body]") -> Body | Refused:
    try:
        return await task
    except Refused as refused:
        return refused


async def test_a_try_that_comes_after_its_turn_has_passed_hears_of_it(place: Place) -> None:
    """The lease was granted after the caller had gone; its repeated request finds the grant in the history."""
    await place.acquire(ttl_ms=200)
    id = place.agent.id("absent")
    await place.waits(id=id, ttl_ms=100)
    await Place(place.agent.called("third")).acquire(ttl_ms=LONG_MS, wait_ms=WAIT_MS)
    assert (await place.waits(id=id, ttl_ms=100))["token"] == 2


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
    assert "no operation that can be published, only requested" in letters[0].headers["Nats-Service-Error"]


async def test_a_lease_that_could_not_be_announced_is_refused(bot: Agent) -> None:
    namespace = "project:" + "🐝" * 240
    error = await bot.refusal("lease", namespace=namespace, key="🐝" * 200, ttl_ms=1_000)
    assert (error.error["name"], error.context["field"]) == ("TooLarge", "subject")
