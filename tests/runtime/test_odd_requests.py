"""No message stops a worker, and a worker survives outages of its servers."""

import asyncio
from pathlib import Path

import nats.errors
import orjson
from nats.aio.client import Client

from hivemem_runtime.bus.connection import connect
from hivemem_runtime.worker import start_with_patience
from hivemem_sessions.worker import SessionsSettings, build
from hivemem_testing.packaged import packaged_nats
from hivemem_testing.ports import free_port
from hivemem_testing.process import ProcessServer
from hivemem_testing.raw_nats import HEADER_BLOCKS, RawNats

from .things import eventually

SECONDS = 20.0
GET = b"hive.req.t1.mallory.sessions.get"
REPLIES = (b"", b"_INBOX.\xff", b"_INBOX.a\x0b1", b"\x0c", b"$JS.API.INFO", b"_INBOX." + b"a" * 3_900)


async def create(client: Client) -> int:
    """Create a session as an uninvolved agent, and return its revision."""
    body = orjson.dumps({"app_name": "a", "user_id": "u"})
    answer = await client.request("hive.req.other.bystander.sessions.create", body, timeout=SECONDS)
    revision: int = orjson.loads(answer.data)["revision"]
    return revision


async def test_a_worker_serves_others_whatever_one_agent_sends(bus: ProcessServer, tmp_path: Path) -> None:
    worker = build(SessionsSettings(nats_url=bus.url, data=tmp_path / "data"))
    await worker.start()
    raw = await RawNats.connect(bus.url)
    for _ in range(4):
        await raw.send(b"HPUB %b 4 6\r\n\r\n\r\n{}\r\n" % GET)
    for block in HEADER_BLOCKS:
        await raw.publish(GET, block, b"{}", b"_INBOX.mallory")
    for subject in (GET, b"hive.req.t1.\xff.sessions.get", b"hive.req.t1.a\x0b7.sessions.get", b"$SRV.PING"):
        for reply in REPLIES:
            await raw.publish(subject, b"\r\n\r\n", b"\xff", reply)
    for subject in (b"hive.in.t1.mallory.sessions.append.\xff", b"hive.in.t1.mallory.sessions.\x0b.s"):
        await raw.publish(subject, b"\r\n\r\n", b"{}")
    caller = await connect(bus.url, "caller")
    assert await create(caller) == 1
    health = await worker.probe()
    assert (health["ready"], health["connected"]) == (True, True)

    async def settled() -> bool:
        return not any((await worker.probe())["commands"]["lag"].values())

    await eventually(settled, "no command stands still")
    await caller.close()
    await raw.close()
    await worker.stop()


async def test_a_worker_whose_read_loop_has_ended_is_not_ready_until_it_is_connected_anew(
    bus: ProcessServer, tmp_path: Path
) -> None:
    worker = build(SessionsSettings(nats_url=bus.url, data=tmp_path / "data"))
    await worker.start()
    for client in (worker._client, worker._reactions_client):  # pyright: ignore[reportPrivateUsage]
        reading: asyncio.Task[None] = getattr(client, "_reading_task")  # noqa: B009  # nobody else can end it
        reading.cancel()
        await asyncio.wait((reading,))
        health = worker._health()  # pyright: ignore[reportPrivateUsage]  # the probe would wait for an answer
        assert (health["ready"], health["connected"]) == (False, False)
        assert any("read loop" in trouble for trouble in health["troubles"])

        async def ready() -> bool:
            return bool((await worker.probe())["ready"])

        await eventually(ready, "it is connected anew")
    caller = await connect(bus.url, "caller")
    assert await create(caller) == 1
    await caller.close()
    await worker.stop()


async def test_a_worker_starts_with_the_servers_that_are_there(bus: ProcessServer, tmp_path: Path) -> None:
    servers = f"nats://nobody.invalid:4222,nats://127.0.0.1:{free_port()},{bus.url}"
    worker = build(SessionsSettings(nats_url=servers, data=tmp_path / "data"))
    await asyncio.wait_for(start_with_patience(worker, asyncio.Event()), SECONDS)
    caller = await connect(bus.url, "caller")
    assert await create(caller) == 1
    await caller.close()
    await worker.stop()


async def test_a_worker_comes_up_with_its_only_server_and_stays_over_its_restart(tmp_path: Path) -> None:
    port = free_port()
    worker = build(SessionsSettings(nats_url=f"nats://127.0.0.1:{port}", data=tmp_path / "data"))
    starting = asyncio.create_task(start_with_patience(worker, asyncio.Event()))
    await asyncio.sleep(0)
    with packaged_nats(tmp_path / "nats", port) as server:
        await asyncio.wait_for(starting, SECONDS)
        caller = await connect(server.url, "caller")
        assert await create(caller) == 1
        server.kill()
        await eventually(lambda: not worker._health()["connected"], "it notices")  # pyright: ignore[reportPrivateUsage]
        server.start()

        async def served() -> bool:
            try:
                return await create(caller) == 1
            except nats.errors.Error:
                return False

        await eventually(served, "it serves again")
        await caller.close()
        await worker.stop()
