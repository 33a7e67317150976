"""A client that is made in a plain function and connects at its first use."""

import asyncio

import pytest

import hivemem
from hivemem_testing.contract import Server
from hivemem_testing.ports import free_port
from hivemem_testing.process import ProcessServer

from .fleet import Fleet, eventually, join

NOTE = hivemem.NewEvent(type="note")


def test_a_client_is_made_without_an_event_loop_and_refuses_a_wrong_address_at_once() -> None:
    assert hivemem.Hive("nats://127.0.0.1:4222", timeout_seconds=3).options.timeout_seconds == 3
    with pytest.raises(hivemem.InvalidRequest) as refused:
        hivemem.Hive("http://127.0.0.1")
    assert refused.value.context["field"] == "url"


async def test_without_an_address_a_client_finds_the_fleet_by_the_environment(
    shared_server: Server, fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HIVEMEM_URL", shared_server.url)
    async with hivemem.connect(tenant="acme") as hive:
        await hive.sessions.append(session_id="s1", event=NOTE)
    await asyncio.to_thread(lambda: hivemem.sync.connect(tenant="acme").close())
    monkeypatch.setenv("HIVEMEM_URL", "http://127.0.0.1")
    with pytest.raises(hivemem.InvalidRequest, match=r"^HIVEMEM_URL: ") as refused:
        hivemem.Hive()
    assert refused.value.context["field"] == "url"


async def test_the_first_uses_connect_once(shared_server: Server, fleet: Fleet) -> None:
    hive = hivemem.Hive(shared_server.url, tenant="acme", agent="bot")
    copy = hive.with_options(message_id="m1")
    assert not hive.connection.connected

    async with hive:
        await asyncio.gather(
            hive.sessions.append(session_id="s1", event=NOTE), copy.sessions.append(session_id="s2", event=NOTE)
        )

        assert hive.connection.epoch == 1
    with pytest.raises(RuntimeError, match="closed"):
        await copy.sessions.append(session_id="s1", event=NOTE)


async def test_a_feed_and_a_publication_connect_too(shared_server: Server, fleet: Fleet) -> None:
    async with hivemem.Hive(shared_server.url, tenant="acme") as hive, hive.changes() as feed:
        assert feed.cursor
    async with hivemem.Hive(shared_server.url, tenant="acme") as hive:
        assert (await hive.publish(hive.sessions.append, session_id="s1", event=NOTE)).route == "s1"


async def test_a_refused_first_use_can_be_repeated(own_server: ProcessServer) -> None:
    own_server.stop()
    hive = hivemem.Hive(own_server.url, connect_timeout_seconds=0.3)
    with pytest.raises(hivemem.Unavailable, match="no NATS server"):
        await hive.sessions.append(session_id="s1", event=NOTE)

    own_server.start()
    fleet = await join(own_server.url)
    await fleet.serve()
    await hive.sessions.append(session_id="s1", event=NOTE)
    await hive.close()
    await fleet.close()


async def test_closing_ends_an_attempt_to_connect() -> None:
    hive = hivemem.Hive(f"nats://127.0.0.1:{free_port()}", connect_timeout_seconds=60)
    asking = asyncio.ensure_future(hive.memory.get(namespace="user:alice", key="k"))
    await asyncio.sleep(0)
    await hive.close()

    with pytest.raises(RuntimeError, match="closed"):
        await asking


async def test_the_last_caller_that_gives_up_ends_the_attempt_and_no_other(fleet: Fleet, shared_server: Server) -> None:
    hive = hivemem.Hive(shared_server.url)
    leaving, staying = (asyncio.ensure_future(hive.sessions.append(session_id=s, event=NOTE)) for s in ("s1", "s2"))
    await asyncio.sleep(0)
    leaving.cancel()
    await staying
    await hive.close()

    alone = hivemem.Hive(f"nats://127.0.0.1:{free_port()}", connect_timeout_seconds=60)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(alone.sessions.append(session_id="s1", event=NOTE), 0.05)
    await eventually(lambda: "_open()" not in repr(asyncio.all_tasks()), "the attempt ends")


def test_another_event_loop_is_refused_by_name(shared_server: Server) -> None:
    hive = hivemem.Hive(shared_server.url)

    async def use() -> None:
        await hive.connection.open()

    with asyncio.Runner() as first, asyncio.Runner() as second:
        first.run(use())
        with pytest.raises(RuntimeError, match="another event loop"):
            second.run(use())
        first.run(hive.close())
