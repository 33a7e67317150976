"""Raw subjects: bytes in and out, the usual refusals, bounded, shared by a queue group."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager

import orjson
import pytest
from nats.aio.client import Client
from nats.aio.msg import Msg

from hivemem_contracts.artifacts.operations import GET
from hivemem_contracts.errors import NotFound
from hivemem_contracts.identifiers import new_id
from hivemem_runtime.bus.connection import connect
from hivemem_runtime.bus.requests.raw_subjects import Answering, RawAnswer, RawRequest, RawSubject
from hivemem_runtime.bus.subscriptions import subscribe
from hivemem_runtime.policy import Policy
from hivemem_testing.contract import Server


@pytest.fixture
async def client(nats_server: Server) -> AsyncIterator[Client]:
    client = await connect(nats_server.url, "raw test")
    yield client
    await client.close()


@asynccontextmanager
async def answering(client: Client, subject: str, answer: Answering, under_way: int = 8) -> AsyncGenerator[RawSubject]:
    raw = RawSubject(subject, answer, GET, Policy(), name="bytes", queue="raw", under_way=under_way)
    await raw.start(client)
    await client.flush()
    yield raw
    await raw.stop()


async def echo(request: RawRequest) -> RawAnswer:
    return RawAnswer({"Was": request.headers.get("Is", "")}, request.data[::-1])


def error_of(message: Msg) -> str:
    assert message.headers is not None
    body = orjson.loads(message.data)
    assert message.headers["Nats-Service-Error-Code"] == str(body["error"]["code"])
    return str(body["error"]["name"])


async def test_bytes_are_answered_as_they_are(client: Client) -> None:
    subject = f"hive.req.acme.bot.raw.{new_id()}"
    data = bytes(range(256)) * 100
    async with answering(client, subject, echo):
        message = await client.request(subject, data, headers={"Is": "x"})
        assert (message.data, (message.headers or {})["Was"]) == (data[::-1], "x")
        assert (await client.request(subject, b"")).data == b""


async def test_errors_are_answered_as_everywhere(client: Client) -> None:
    subject = f"hive.req.acme.bot.raw.{new_id()}"

    async def refuse(request: RawRequest) -> RawAnswer:
        if request.data == b"known":
            raise NotFound("there is\nno such thing", name="x")
        raise ValueError("not for the caller's eyes")

    async with answering(client, subject, refuse):
        message = await client.request(subject, b"known")
        assert error_of(message) == "NotFound"
        assert (message.headers or {})["Nats-Service-Error"] == "NotFound: there is no such thing"
        message = await client.request(subject, b"unknown")
        assert error_of(message) == "Internal"
        assert b"caller" not in message.data


async def test_too_many_at_once_are_refused(client: Client) -> None:
    subject = f"hive.req.acme.bot.raw.{new_id()}"
    go_on, taken = asyncio.Event(), asyncio.Semaphore(0)

    async def wait(request: RawRequest) -> RawAnswer:
        taken.release()
        await go_on.wait()
        return RawAnswer()

    async with answering(client, subject, wait, under_way=4) as raw:
        waiting = [asyncio.create_task(client.request(subject, b"", timeout=10)) for _ in range(2)]
        for _ in waiting:
            await taken.acquire()
        assert (raw.status()["under_way"], raw.status()["limit"]) == (2, 4)
        assert error_of(await client.request(subject, b"")) == "Overloaded"
        go_on.set()
        assert [(await each).data for each in waiting] == [b"", b""]
        stats = raw.endpoint.stats({})
        assert (stats["num_requests"], stats["num_errors"], stats["last_error"]) == (3, 1, "42901:Overloaded")
        assert stats["processing_time"] > 0


async def test_what_was_taken_is_answered_before_it_stops(client: Client) -> None:
    subject = f"hive.req.acme.bot.raw.{new_id()}"
    go_on, taken = asyncio.Event(), asyncio.Event()

    async def wait(request: RawRequest) -> RawAnswer:
        taken.set()
        await go_on.wait()
        return RawAnswer(data=b"done")

    raw = RawSubject(subject, wait, GET, Policy(), name="bytes", under_way=2)
    await raw.start(client)
    asked = asyncio.create_task(client.request(subject, b"", timeout=10))
    await taken.wait()
    stopping = asyncio.create_task(raw.stop())
    go_on.set()
    assert (await asked).data == b"done"
    await stopping


async def test_nobody_can_have_an_answer_sent_elsewhere_than_to_an_inbox(client: Client) -> None:
    subject, elsewhere = f"hive.req.acme.bot.raw.{new_id()}", f"elsewhere.{new_id()}"
    subscription = await client.subscribe(elsewhere)  # pyright: ignore[reportUnknownMemberType]  # its future is untyped
    async with answering(client, subject, echo):
        await client.publish(subject, b"x", reply=elsewhere)
        await client.request(subject, b"")
        assert subscription.pending_msgs == 0


async def test_bytes_go_to_no_inbox_of_another_agent(client: Client) -> None:
    tenant = new_id()
    subject = f"hive.req.{tenant}.bot.raw.x"
    heard: list[str] = []

    async def hear(message: Msg) -> None:
        heard.append(message.subject)

    for agent in ("bot", "other"):
        await subscribe(client, f"_INBOX_{tenant}_{agent}.>", hear)
    async with answering(client, subject, echo) as raw:
        await client.publish(subject, b"x", reply=f"_INBOX_{tenant}_other.x")
        await client.publish(subject, b"x", reply=f"_INBOX_{tenant}_bot.x")
        await client.request(subject, b"")
        await client.flush()
    assert heard == [f"_INBOX_{tenant}_bot.x"]
    assert raw.status()["unanswered"] == 1


async def test_another_tenant_finds_room_beside_one_that_takes_all_it_may(client: Client) -> None:
    name = new_id()
    go_on, taken = asyncio.Event(), asyncio.Semaphore(0)

    async def wait(request: RawRequest) -> RawAnswer:
        if request.data == b"wait":
            taken.release()
            await go_on.wait()
        return RawAnswer(data=b"done")

    async with answering(client, f"hive.req.*.bot.{name}.x", wait, under_way=4):
        greedy, other = f"hive.req.greedy.bot.{name}.x", f"hive.req.other.bot.{name}.x"
        waiting = [asyncio.create_task(client.request(greedy, b"wait", timeout=10)) for _ in range(2)]
        for _ in waiting:
            await taken.acquire()
        assert error_of(await client.request(greedy, b"")) == "Overloaded"
        assert (await client.request(other, b"")).data == b"done"
        go_on.set()
        assert [(await each).data for each in waiting] == [b"done", b"done"]


async def test_those_of_a_queue_share_what_comes(client: Client, nats_server: Server) -> None:
    subject = f"hive.req.acme.bot.raw.{new_id()}"
    other = await connect(nats_server.url, "raw test")
    async with answering(client, subject, echo), answering(other, subject, echo):
        answers = [await client.request(subject, b"x") for _ in range(20)]
        assert len(answers) == 20
    await other.close()
