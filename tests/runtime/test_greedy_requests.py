"""When a tenant sends too much, memory stays bounded, others are served, and each request is answered."""

import asyncio
import socket
from pathlib import Path

import orjson
import pytest
from nats.aio.client import Client
from nats.aio.msg import Msg

from hivemem_runtime.bus.connection import connect
from hivemem_runtime.bus.requests import outbox
from hivemem_runtime.bus.requests.intake import Requests
from hivemem_runtime.bus.subscriptions import subscribe
from hivemem_runtime.ledger.sqlite import SqliteLedger
from hivemem_testing.process import ProcessServer
from hivemem_testing.servers import packaged_nats

from .served import HELD, LARGE_BYTES, LIMIT, Served, ask, code_of
from .things import eventually


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


async def test_answers_are_under_way_until_they_have_left(
    bus: ProcessServer, client: Client, caller: Client, served: Served
) -> None:
    """Callers send many small requests for large answers without waiting for them."""
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
    """The connection is read fast enough for the server, which closes slow readers."""
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
