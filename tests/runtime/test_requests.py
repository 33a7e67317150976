"""Requests: bounded, told about in the ecosystem's own way, and finished before a worker leaves."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import nats.errors
import orjson
import pytest
from nats.aio.client import Client
from nats.aio.msg import Msg

from hivemem_contracts.errors import Forbidden
from hivemem_contracts.model import ReplyBody, RequestBody
from hivemem_contracts.operations import Operation, ServiceContract
from hivemem_contracts.subjects import Sender, inbox_prefix
from hivemem_runtime.bus import outbox
from hivemem_runtime.bus.asking import request_as
from hivemem_runtime.bus.connection import connect
from hivemem_runtime.bus.jetstream import ask as jetstream_ask
from hivemem_runtime.bus.requests import Requests
from hivemem_runtime.bus.subscriptions import subscribe
from hivemem_runtime.ledger.port import Append, Outcome, Write
from hivemem_runtime.ledger.sqlite import SqliteLedger
from hivemem_runtime.service import Call, Service
from hivemem_testing.process import ProcessServer
from hivemem_testing.servers import packaged_nats

from .things import THING, Thing, eventually


class Ask(RequestBody):
    text: str = ""


class Answer(ReplyBody):
    text: str
    agent: str


def operation(name: str, *, writes: bool = False) -> Operation[..., Ask, Answer]:
    return Operation("things", name, Ask, Answer, summary=f"{name}.", writes=writes)


NAMES = ("echo", "hold", "fail", "refuse", "written", "large")
ECHO, HOLD, FAIL, REFUSE, WRITTEN, LARGE = (operation(name) for name in NAMES)
COUNT = operation("count", writes=True)
CONTRACT = ServiceContract("things", "Things of a test.", (ECHO, HOLD, FAIL, REFUSE, WRITTEN, LARGE, COUNT))
LARGE_BYTES = 400_000
LIMIT = 6
HELD = LIMIT // 2
"""A tenant alone may have half of them."""


@dataclass
class Served:
    """A service whose `hold` answers once the gate opens."""

    ledger: SqliteLedger
    gate: asyncio.Event = field(default_factory=asyncio.Event)
    held: int = 0
    made: int = 0
    most: int = 0
    look: Callable[[], int] = field(default=lambda: 0)

    def service(self) -> Service:
        service = Service(CONTRACT, self.ledger)
        service.handler(ECHO, self.echo)
        service.handler(HOLD, self.hold)
        service.handler(FAIL, self.fail)
        service.handler(REFUSE, self.refuse)
        service.handler(WRITTEN, self.written)
        service.handler(LARGE, self.large)
        service.command(COUNT, self.plan, self.answer)
        return service

    async def echo(self, call: Call, body: Ask) -> Answer:
        return Answer(text=body.text, agent=call.sender.agent)

    async def hold(self, call: Call, body: Ask) -> Answer:
        self.held += 1
        await self.gate.wait()
        return await self.echo(call, Ask(text="x" * LARGE_BYTES) if body.text == "large" else body)

    async def fail(self, call: Call, body: Ask) -> Answer:
        raise KeyError("secret")

    async def refuse(self, call: Call, body: Ask) -> Answer:
        raise Forbidden("line one\r\nNats-Service-Error-Code: 0", who=call.sender.agent)

    async def written(self, call: Call, body: Ask) -> bytes:
        return b'{"text": "' + body.text.encode() + b'"}'

    async def large(self, call: Call, body: Ask) -> Answer:
        self.made += 1
        self.most = max(self.most, self.look())
        return Answer(text="x" * LARGE_BYTES, agent=call.sender.agent)

    def plan(self, call: Call, body: Ask) -> Write:
        if body.text == "fail":
            raise KeyError("secret")
        return Write("acme", "bot", THING, "t", lambda heads, now: [Append(THING, "t", Thing(1))], call.request_id)

    async def answer(self, call: Call, body: Ask, outcome: Outcome) -> Answer:
        if body.text == "fail late":
            raise KeyError("secret")
        return Answer(text=f"{outcome.record.number} {outcome.duplicate}", agent=call.sender.agent)


@pytest.fixture
def served(ledger: SqliteLedger) -> Served:
    return Served(ledger)


@pytest.fixture
async def requests(client: Client, served: Served) -> AsyncIterator[Requests]:
    requests = Requests(client, served.service(), version="1.2.3", health=lambda: {"ready": True}, under_way=LIMIT)
    await requests.start()
    yield requests
    served.gate.set()
    await requests.stop()


@pytest.fixture
async def caller(bus: ProcessServer) -> AsyncIterator[Client]:
    caller = await connect(bus.url, "caller")
    yield caller
    await caller.close()


async def ask(caller: Client, name: str, data: bytes = b"", headers: dict[str, str] | None = None) -> Msg:
    return await caller.request(f"hive.req.acme.bot.things.{name}", data, timeout=10, headers=headers)


def code_of(message: Msg) -> str | None:
    return (message.headers or {}).get("Nats-Service-Error-Code")


async def test_a_request_is_answered(requests: Requests, caller: Client) -> None:
    message = await ask(caller, "echo", b'{"text":"hi"}')
    assert orjson.loads(message.data) == {"text": "hi", "agent": "bot"}
    assert code_of(message) is None


async def test_an_answer_that_is_written_already_goes_out_as_it_is(requests: Requests, caller: Client) -> None:
    message = await ask(caller, "written", b'{"text":"hi"}')
    assert message.data == b'{"text": "hi"}'
    assert code_of(message) is None


async def test_past_the_limit_the_answer_is_overloaded_at_once(
    requests: Requests, caller: Client, served: Served
) -> None:
    held = [asyncio.create_task(ask(caller, "hold", b'{"text":"held"}')) for _ in range(HELD)]
    await eventually(lambda: served.held == HELD, "all of them are under way")
    status = requests.status()
    assert (status["under_way"], status["limit"], status["waiting"]) == (HELD, LIMIT, 0)
    refused = await ask(caller, "echo")
    error = orjson.loads(refused.data)["error"]
    assert (code_of(refused), error["name"], error["retryable"]) == ("42901", "Overloaded", True)
    assert error["context"]["limit"] == LIMIT
    assert error["context"]["retry_after_ms"] > 0
    served.gate.set()
    answers = [orjson.loads(message.data)["text"] for message in await asyncio.gather(*held)]
    assert answers == ["held"] * HELD
    assert code_of(await ask(caller, "echo")) is None


async def test_leaving_takes_nothing_more_and_answers_what_was_taken(
    requests: Requests, caller: Client, served: Served
) -> None:
    held = [asyncio.create_task(ask(caller, "hold")) for _ in range(HELD)]
    await eventually(lambda: served.held == HELD, "all of them are under way")
    leaving = asyncio.create_task(requests.stop())

    async def nobody_there() -> bool:
        try:
            return code_of(await ask(caller, "echo")) is not None and False
        except nats.errors.NoRespondersError:
            return True

    await eventually(nobody_there, "nothing more is taken")
    assert not leaving.done()
    served.gate.set()
    assert [code_of(message) for message in await asyncio.gather(*held)] == [None] * HELD
    await leaving


async def test_leaving_does_not_wait_for_ever(requests: Requests, caller: Client, served: Served) -> None:
    held = asyncio.create_task(ask(caller, "hold"))
    await eventually(lambda: served.held == 1, "it is under way")
    await requests.stop(timeout_seconds=0.05)
    assert requests.status()["under_way"] == 1
    served.gate.set()
    assert code_of(await held) is None


@pytest.mark.parametrize(
    ("name", "data"), [("fail", b""), ("count", b'{"text":"fail"}'), ("count", b'{"text":"fail late"}')]
)
async def test_a_fault_is_told_as_such_and_no_more(
    requests: Requests, caller: Client, name: str, data: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    message = await ask(caller, name, data)
    assert code_of(message) == "50001"
    assert b"secret" not in message.data
    assert "secret" in "".join(capsys.readouterr())
    assert requests.status()["under_way"] == 0


async def test_the_text_of_an_error_is_one_header_line(requests: Requests, caller: Client) -> None:
    message = await ask(caller, "refuse")
    assert code_of(message) == "40301"
    text = (message.headers or {})["Nats-Service-Error"]
    assert text == "Forbidden: line one Nats-Service-Error-Code: 0"
    assert orjson.loads(message.data)["error"]["context"] == {"who": "bot"}


async def test_a_write_is_done_once_for_its_id(requests: Requests, caller: Client) -> None:
    answers = [orjson.loads((await ask(caller, "count", headers={"Nats-Msg-Id": "m1"})).data)["text"] for _ in range(2)]
    assert answers == ["1 False", "1 True"]


async def test_the_service_is_found_by_the_ecosystems_own_tools(requests: Requests, caller: Client) -> None:
    await ask(caller, "echo")
    await ask(caller, "fail")
    found: dict[str, dict[str, Any]] = {}
    for verb in ("PING", "INFO", "STATS"):
        found[verb] = cast("dict[str, Any]", orjson.loads((await caller.request(f"$SRV.{verb}.things")).data))
        assert (found[verb]["name"], found[verb]["version"]) == ("things", "1.2.3")
        assert found[verb]["type"] == f"io.nats.micro.v1.{verb.lower()}_response"
    assert found["INFO"]["description"] == "Things of a test."
    assert found["INFO"]["metadata"]["product"] == "hivemem"
    endpoints = {endpoint["name"]: endpoint for endpoint in found["INFO"]["endpoints"]}
    assert set(endpoints) == {"echo", "hold", "fail", "refuse", "written", "large", "count"}
    assert endpoints["echo"]["subject"] == "hive.req.*.*.things.echo"
    assert endpoints["echo"]["queue_group"] == "things"
    assert endpoints["echo"]["metadata"] == {"summary": "echo."}
    figures = {endpoint["name"]: endpoint for endpoint in found["STATS"]["endpoints"]}
    assert (figures["fail"]["num_requests"], figures["fail"]["num_errors"]) == (1, 1)
    assert figures["fail"]["last_error"] == "50001:Internal"
    assert figures["fail"]["processing_time"] == figures["fail"]["average_processing_time"] > 0
    stats = {endpoint["name"]: endpoint["data"] for endpoint in found["STATS"]["endpoints"]}
    assert (stats["echo"]["completed"], stats["echo"]["errors"], stats["echo"]["health"]) == (1, 0, {"ready": True})
    assert (stats["fail"]["completed"], stats["fail"]["errors"]) == (1, 1)
    assert stats["hold"]["average_ms"] == 0.0


async def test_an_answer_that_cannot_be_sent_ends_the_request_all_the_same(
    bus: ProcessServer, client: Client, requests: Requests, caller: Client, served: Served
) -> None:
    held = asyncio.create_task(ask(caller, "hold"))
    await eventually(lambda: served.held == 1, "it is under way")
    held.cancel()
    bus.kill()
    await eventually(lambda: not client.is_connected, "the connection is noticed to be gone")
    served.gate.set()
    await eventually(lambda: requests.status()["under_way"] == 0, "nothing is under way")
    bus.start()

    async def back() -> bool:
        try:
            return code_of(await ask(caller, "echo")) is None
        except nats.errors.Error:
            return False

    await eventually(back, "requests are served again")


def test_an_operation_is_bound_once_and_to_its_own_service(ledger: SqliteLedger, served: Served) -> None:
    service = served.service()
    with pytest.raises(ValueError, match="bound twice"):
        service.handler(ECHO, served.echo)
    with pytest.raises(ValueError, match="does not belong"):
        service.handler(operation("echo"), served.echo)
    assert service.unbound() == []
    assert Service(CONTRACT, ledger).unbound() == list(CONTRACT)


async def test_a_tenant_that_asks_for_too_much_leaves_room_for_others(
    requests: Requests, caller: Client, served: Served
) -> None:
    held = [asyncio.create_task(ask(caller, "hold", b'{"text":"held"}')) for _ in range(LIMIT * 3)]
    await eventually(lambda: served.held == HELD, "its share of them is under way")
    other = await caller.request("hive.req.other.bot.things.echo", b'{"text":"hi"}', timeout=10)
    assert orjson.loads(other.data) == {"text": "hi", "agent": "bot"}
    served.gate.set()
    codes = [code_of(message) for message in await asyncio.gather(*held)]
    assert codes.count(None) == HELD
    assert requests.status()["overloaded"] == codes.count("42901") == len(codes) - HELD


FORGED = (
    "hive.chg.acme.thing.t",
    "hive.in.acme.other.things.count.t",
    "hive.dead.acme.bot.things.count",
    "$JS.API.STREAM.PURGE.CHANGES",
    "_INBOX_acme_other.x",
    "_INBOX_other_bot.x",
    "_INBOX.*.x",
)


@pytest.mark.parametrize("name", ["echo", "fail", "written", "count"])
async def test_nothing_but_an_inbox_of_the_caller_is_answered(
    requests: Requests, client: Client, caller: Client, name: str
) -> None:
    heard: list[str] = []

    async def hear(message: Msg) -> None:
        heard.append(message.subject)

    for subject in ("_INBOX_acme_other.>", "_INBOX_other_bot.>", "_INBOX_acme_bot.>"):
        await subscribe(caller, subject, hear)
    for reply in FORGED:
        await caller.publish(f"hive.req.acme.bot.things.{name}", b'{"text":"x"}', reply=reply)
    await caller.publish(f"hive.req.acme.bot.things.{name}", b'{"text":"x"}', reply="_INBOX_acme_bot.mine")
    await ask(caller, "echo")
    await eventually(lambda: len(heard) > 0, "its own inbox hears")
    assert heard == ["_INBOX_acme_bot.mine"]
    assert requests.status()["unanswered"] == len(FORGED)
    for stream in ("CHANGES", "INGEST", "DEAD"):
        assert (await jetstream_ask(client, f"STREAM.INFO.{stream}"))["state"]["messages"] == 0


async def test_without_a_place_for_the_answer_writes_are_done_and_reads_are_not(
    requests: Requests, caller: Client, served: Served
) -> None:
    served.gate.set()
    for reply in ("", "hive.chg.acme.thing.t"):
        await caller.publish("hive.req.acme.bot.things.hold", b"{}", reply=reply)
        await caller.publish("hive.req.acme.bot.things.count", b"{}", reply=reply)
    assert code_of(await ask(caller, "count")) is None
    head = await served.ledger.head(THING, "acme", "t")
    assert head is not None
    assert (head.version, served.held) == (3, 0)


async def test_a_worker_may_answer_to_the_callers_own_inboxes_alone(
    client: Client, caller: Client, served: Served, bus: ProcessServer
) -> None:
    requests = Requests(client, served.service(), version="1.2.3", health=dict, own_inboxes=True)
    await requests.start()
    with pytest.raises(nats.errors.TimeoutError):
        await caller.request("hive.req.acme.bot.things.echo", b"{}", timeout=0.2)
    own = await connect(bus.url, "own", inbox_prefix=inbox_prefix("acme", "bot"))
    assert code_of(await ask(own, "echo")) is None
    message = await request_as(client, Sender("acme", "bot"), "hive.req.acme.bot.things.echo", b"{}", None, 10)
    assert code_of(message) is None
    assert requests.status()["unanswered"] == 1
    await own.close()
    await requests.stop()


@pytest.mark.parametrize("name", ["a\r\nb", "a\nNats-Service-Error-Code: 0", "a\x00b", "\u00e9\u2028", "x" * 900_000])
async def test_odd_names_of_fields_do_not_break_an_error(requests: Requests, caller: Client, name: str) -> None:
    message = await ask(caller, "echo", orjson.dumps({name: 1}))
    assert code_of(message) == "40001"
    text = (message.headers or {})["Nats-Service-Error"]
    assert text.isprintable()
    assert len(text) < 600
    assert orjson.loads(message.data)["error"]["code"] == 40001
    assert code_of(await ask(caller, "echo")) is None


async def test_answers_are_under_way_until_they_have_left(
    bus: ProcessServer, client: Client, caller: Client, served: Served
) -> None:
    """Many small requests for large answers, from callers that do not wait."""
    held_limit = 8 * 1024 * 1024
    requests = Requests(client, served.service(), version="1.2.3", health=dict, bytes_under_way=held_limit)
    await requests.start()
    served.look = lambda: int(requests.status()["bytes"])
    for _ in range(asked := 2_000):
        await caller.publish("hive.req.acme.bot.things.large", b"{}", reply="_INBOX.nobody")
    await caller.flush()
    status = requests.status
    await eventually(lambda: served.made + status()["overloaded"] == asked, "each is taken or refused")
    await eventually(lambda: status()["under_way"] == 0, "nothing is under way")
    assert served.made > 0
    assert 2 * LARGE_BYTES < served.most <= held_limit
    assert status()["bytes"] == 0
    await requests.stop()


async def test_a_server_that_does_not_read_is_told_as_trouble(
    bus: ProcessServer, client: Client, caller: Client, served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outbox, "STUCK_SECONDS", 0.05)
    requests = Requests(client, served.service(), version="1.2.3", health=dict)
    await requests.start()
    held = [asyncio.create_task(ask(caller, "hold", b'{"text":"large"}')) for _ in range(60)]
    await eventually(lambda: served.held == 60, "they are under way")
    bus.pause()
    try:
        served.gate.set()
        await eventually(lambda: "trouble" in requests.status(), "it is noticed")
        assert requests.status()["under_way"] > 0
    finally:
        bus.resume()
    assert [code_of(message) for message in await asyncio.gather(*held)] == [None] * 60
    assert "trouble" not in requests.status()
    await requests.stop()


async def test_a_burst_of_large_requests_is_answered_whole(tmp_path: Path, ledger: SqliteLedger) -> None:
    """The connection is read fast enough for the server, which cuts off who leaves too much unread."""
    count, body = 300, orjson.dumps({"text": "x" * 500_000})
    frame = b"PUB hive.req.acme.bot.things.echo _INBOX.burst %d\r\n%s\r\n" % (len(body), body)
    with packaged_nats(tmp_path / "burst", extra_configuration="max_pending: 256MB\n") as server:
        client, caller = await connect(server.url, "worker"), await connect(server.url, "caller")
        requests = Requests(client, Served(ledger).service(), version="1.2.3", health=dict)
        await requests.start()
        answers: list[str | None] = []

        async def take(message: Msg) -> None:
            answers.append(code_of(message))

        await subscribe(caller, "_INBOX.burst", take)
        await caller.flush()
        host, port = server.url.rpartition("/")[2].split(":")

        def blast() -> None:
            with socket.create_connection((host, int(port))) as connection:
                connection.sendall(b'CONNECT {"verbose":false,"headers":true}\r\n')
                for _ in range(count):
                    connection.sendall(frame)
                connection.sendall(b"PING\r\n")
                received = b""
                while not received.endswith(b"PONG\r\n"):
                    received += connection.recv(65_536)

        await asyncio.to_thread(blast)
        await eventually(lambda: len(answers) == count, "each of them is answered")
        assert set(answers) <= {None, "42901"}
        assert client.stats["reconnects"] == 0
        await requests.stop()
        await caller.close()
        await client.close()
