"""A worker publishes answers to the caller's inbox only, whatever a request says."""

import nats.errors
import orjson
import pytest
from nats.aio.client import Client
from nats.aio.msg import Msg

from hivemem_contracts.subjects import Sender, inbox_prefix
from hivemem_runtime.bus.connection import connect
from hivemem_runtime.bus.jetstream import ask as jetstream_ask
from hivemem_runtime.bus.requests.intake import Requests
from hivemem_runtime.bus.requests.outgoing import request_as
from hivemem_runtime.bus.subscriptions import subscribe
from hivemem_runtime.policy import Policy
from hivemem_testing.process import ProcessServer

from .served import Served, ask, code_of
from .things import THING, eventually

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
    service = served.service(Policy(own_inboxes=True))
    requests = Requests(client, service, version="1.2.3", health=dict)
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
