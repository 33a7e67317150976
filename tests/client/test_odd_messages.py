"""A client reads any message, and reconnects when one of its connection's tasks ends."""

import asyncio
from datetime import UTC, datetime

import pytest

import hivemem
from hivemem_contracts.changes import Change
from hivemem_contracts.sessions.replies import Appended
from hivemem_contracts.streams import CHANGES
from hivemem_testing.contract import Server
from hivemem_testing.ports import free_port
from hivemem_testing.raw_nats import HEADER_BLOCKS, RawNats

from .fleet import Fleet, eventually

BLOCKS = [block for block in HEADER_BLOCKS if b"Nats-Msg-Id" not in block]
FORGED = (b"Status: 100", b"Status: 100\r\nNats-Consumer-Stalled: x", b"Status: 409", b"Nats-Last-Consumer: 99")


def change(version: int) -> bytes:
    told = Change(
        entity="event",
        operation="appended",
        tenant="acme",
        namespace="s1",
        version=version,
        actor="worker",
        at=datetime.now(UTC),
    )
    return told.model_dump_json().encode()


async def test_a_feed_tells_what_is_stored_from_what_the_server_says(
    shared_server: Server, hive: hivemem.Hive, fleet: Fleet
) -> None:
    raw = await RawNats.connect(shared_server.url)
    blocks = [*BLOCKS, *(b"NATS/1.0\r\n%b\r\n\r\n" % line for line in FORGED)]
    for version, block in enumerate(blocks, start=1):
        await raw.publish(b"hive.chg.acme.event.s1", block, change(version))
    await raw.close()
    async with asyncio.timeout(20), hive.changes(since="start") as feed:
        versions = [(await anext(feed)).version for _ in blocks]
    assert versions == list(range(1, len(blocks) + 1))


async def test_nothing_that_comes_to_its_inbox_stops_a_client(
    shared_server: Server, hive: hivemem.Hive, fleet: Fleet
) -> None:
    raw = await RawNats.connect(shared_server.url)
    async with hive.changes() as feed:
        (consumer,) = (await fleet.api(f"CONSUMER.LIST.{CHANGES}"))["consumers"]
        replies: str = getattr(hive.connection, "_reply_prefix")  # noqa: B009  # an attacker may guess it
        for inbox in (f"{replies}1", consumer["config"]["deliver_subject"]):
            for block in HEADER_BLOCKS:
                await raw.publish(inbox.encode(), block, b"", b"\xff")
            await raw.publish(inbox.encode(), b"NATS/1.0 100 x\r\nNats-Last-Consumer: many\r\n\r\n", b"")
        await fleet.announce("acme", "s1", 1)
        async with asyncio.timeout(20):
            assert (await anext(feed)).version == 1
    await raw.close()
    assert (await append(hive)).sequence == 1
    assert hive.connection.epoch == 1


async def append(hive: hivemem.Hive) -> Appended:
    return await hive.sessions.append(session_id="s1", event=hivemem.NewEvent(type="note"))


@pytest.mark.parametrize("loop", ["_reading_task", "_flusher_task", "_ping_interval_task"])
async def test_a_client_whose_loop_has_ended_is_connected_anew(hive: hivemem.Hive, fleet: Fleet, loop: str) -> None:
    task: asyncio.Task[None] = getattr(hive.connection.client, loop)
    task.cancel()
    await eventually(lambda: hive.connection.epoch == 2, "it is connected anew")
    assert (await append(hive)).sequence == 1


async def test_a_server_that_is_away_does_no_harm_to_a_list(shared_server: Server, fleet: Fleet) -> None:
    servers = f"nats://127.0.0.1:{free_port()},{shared_server.url}"
    async with hivemem.connect(servers, tenant="acme", connect_timeout_seconds=10) as hive:
        assert (await append(hive)).sequence == 1


def test_a_wrong_address_is_refused_without_its_password() -> None:
    with pytest.raises(hivemem.InvalidRequest, match=r"'http://b' \(server 2 of 2\): the scheme") as raised:
        hivemem.connect("nats://a,http://me:secret@b")
    assert raised.value.context["field"] == "url"
    assert "secret" not in str(raised.value)
