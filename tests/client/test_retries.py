"""Retryable errors are retried with the same id, within a deadline."""

import asyncio
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import nats.errors
import pytest

import hivemem
from hivemem_contracts.errors import HiveError
from hivemem_contracts.memory.replies import LeaseGranted
from hivemem_contracts.sessions.replies import Appended
from hivemem_testing.contract import Server
from hivemem_testing.process import ProcessServer
from hivemem_testing.servers import packaged_nats

from .fleet import Answer, Asked, Fleet, appended, eventually, join

NOTE = hivemem.NewEvent(type="note")


def in_turn(*answers: HiveError | None) -> Answer:
    """Give these answers one after another, then the default answer."""
    rest: Iterator[HiveError | None] = iter(answers)

    def answer(asked: Asked) -> Appended | HiveError | None:
        return next(rest, appended(asked))

    return answer


@pytest.mark.parametrize("kind", [hivemem.Overloaded, hivemem.Unavailable])
async def test_a_retryable_error_is_retried_with_the_same_id(
    hive: hivemem.Hive, fleet: Fleet, kind: type[HiveError]
) -> None:
    fleet.answers["append"] = in_turn(kind("busy", retry_after_ms=1), kind("busy", retry_after_ms=1))

    reply = await hive.sessions.append(session_id="s1", event=NOTE)

    assert reply.sequence == 1
    assert len(fleet.asked) == 3
    assert len({asked.message_id for asked in fleet.asked}) == 1
    assert len({str(asked.body) for asked in fleet.asked}) == 1


async def test_a_retry_comes_no_earlier_than_told(hive: hivemem.Hive, fleet: Fleet) -> None:
    fleet.answers["append"] = in_turn(hivemem.Overloaded("busy", retry_after_ms=200))

    started = time.monotonic()
    await hive.sessions.append(session_id="s1", event=NOTE)

    assert 0.2 <= time.monotonic() - started < 1


async def test_a_retryable_error_of_a_newer_fleet_is_retried(hive: hivemem.Hive, fleet: Fleet) -> None:
    class ComeBack(HiveError):
        code = 49998
        retryable = True

    fleet.answers["append"] = in_turn(ComeBack("later", retry_after_ms=1))

    assert (await hive.sessions.append(session_id="s1", event=NOTE)).sequence == 1


async def test_what_stays_overloaded_is_raised_as_that(hive: hivemem.Hive, fleet: Fleet) -> None:
    fleet.answers["append"] = lambda _: hivemem.Overloaded("always busy", retry_after_ms=5)

    with pytest.raises(hivemem.Overloaded, match="always busy"):
        await hive.with_options(retries=3).sessions.append(session_id="s1", event=NOTE)

    assert len(fleet.asked) == 4


async def test_a_wait_past_the_deadline_is_not_begun(hive: hivemem.Hive, fleet: Fleet) -> None:
    fleet.answers["append"] = lambda _: hivemem.Unavailable("away", retry_after_ms=5_000)

    started = time.monotonic()
    with pytest.raises(hivemem.Unavailable, match="away"):
        await hive.with_options(timeout_seconds=1).sessions.append(session_id="s1", event=NOTE)

    assert time.monotonic() - started < 1


async def test_a_lost_answer_is_asked_for_again_with_the_same_id(hive: hivemem.Hive, fleet: Fleet) -> None:
    fleet.answers["append"] = in_turn(None)

    await hive.with_options(attempt_seconds=0.1).sessions.append(session_id="s1", event=NOTE)

    first, second = fleet.asked
    assert first.message_id == second.message_id is not None


async def test_silence_ends_at_the_deadline_and_names_the_doctor(hive: hivemem.Hive, fleet: Fleet) -> None:
    fleet.answers["append"] = lambda _: None

    started = time.monotonic()
    with pytest.raises(hivemem.Unavailable, match=r"sessions\.append: no answer came.*hivemem doctor") as raised:
        await hive.with_options(timeout_seconds=0.5, attempt_seconds=0.2).sessions.append(session_id="s1", event=NOTE)

    assert 0.4 < time.monotonic() - started < 1.5
    assert raised.value.context["reason"] == "timeout"
    assert raised.value.context["tries"] >= 3


async def test_without_a_worker_the_request_waits_for_one(shared_server: Server) -> None:
    fleet = await join(shared_server.url)
    async with hivemem.connect(shared_server.url, tenant="acme", timeout_seconds=10) as hive:
        request = asyncio.create_task(hive.sessions.append(session_id="s1", event=NOTE))
        with pytest.raises(nats.errors.NoRespondersError):
            await fleet.client.request("hive.req.acme.default.sessions.append", b"")
        assert not request.done()
        await fleet.serve()

        assert (await request).sequence == 1
    await fleet.close()


async def test_without_any_worker_it_says_so(shared_server: Server) -> None:
    async with hivemem.connect(shared_server.url, timeout_seconds=0.3) as hive:
        with pytest.raises(hivemem.Unavailable, match="no worker serves it") as raised:
            await hive.sessions.append(session_id="s1", event=NOTE)

    assert raised.value.context["reason"] == "no_responders"


async def test_a_killed_server_costs_no_request(
    own_server: ProcessServer, own_fleet: Fleet, own_hive: hivemem.Hive
) -> None:
    done = 0
    stop = asyncio.Event()

    async def keep_asking() -> None:
        nonlocal done
        while not stop.is_set():
            await own_hive.sessions.append(session_id="s1", event=NOTE)
            done += 1

    tasks = [asyncio.create_task(keep_asking()) for _ in range(8)]
    for _ in range(2):
        await eventually(lambda before=done: done > before + 50, "requests go on")
        await asyncio.to_thread(own_server.kill)
        await asyncio.to_thread(own_server.start)
    await eventually(lambda before=done: done > before + 50, "requests go on after the last kill")
    stop.set()
    await asyncio.gather(*tasks)

    assert len({asked.message_id for asked in own_fleet.asked}) == done


async def test_a_request_while_the_server_is_down_waits_for_it(
    own_server: ProcessServer, own_fleet: Fleet, own_hive: hivemem.Hive
) -> None:
    await asyncio.to_thread(own_server.kill)
    request = asyncio.create_task(own_hive.sessions.append(session_id="s1", event=NOTE))
    await eventually(lambda: not own_hive.connection.connected, "the client notices")
    assert not request.done()
    await asyncio.to_thread(own_server.start)

    assert (await request).sequence == 1
    assert len({asked.message_id for asked in own_fleet.asked}) == 1


async def test_a_server_that_stays_down_is_unavailable(own_server: ProcessServer, own_hive: hivemem.Hive) -> None:
    await asyncio.to_thread(own_server.kill)
    await eventually(lambda: not own_hive.connection.connected, "the client notices")

    with pytest.raises(hivemem.Unavailable, match="no connection to the NATS server") as raised:
        await own_hive.with_options(timeout_seconds=0.3).sessions.append(session_id="s1", event=NOTE)

    assert raised.value.context["reason"] == "disconnected"


async def test_a_frozen_server_answers_once_it_goes_on(
    own_server: ProcessServer, own_fleet: Fleet, own_hive: hivemem.Hive
) -> None:
    own_server.pause()
    hasty = own_hive.with_options(timeout_seconds=0.3)
    with pytest.raises(hivemem.Unavailable, match="no answer came"):
        await hasty.sessions.append(session_id="s1", event=NOTE)
    request = asyncio.create_task(own_hive.sessions.append(session_id="s1", event=NOTE))
    own_server.resume()

    assert (await request).sequence == 1


async def test_a_connection_that_was_closed_for_good_is_made_anew(fleet: Fleet, hive: hivemem.Hive) -> None:
    # nats-py does this when the server ends a connection with an error, as it does when credentials expire.
    await hive.connection.client.close()

    assert (await hive.sessions.append(session_id="s1", event=NOTE)).sequence == 1
    assert hive.connection.epoch == 2


async def test_no_server_at_all_is_unavailable_and_says_what_to_do(own_server: ProcessServer) -> None:
    own_server.stop()

    with pytest.raises(hivemem.Unavailable, match=r"connection refused.*hivemem up") as raised:
        await hivemem.connect(own_server.url, connect_timeout_seconds=0.3)

    assert raised.value.context["reason"] == "disconnected"


async def test_refused_credentials_are_forbidden_at_once_and_not_shown(tmp_path: Path) -> None:
    with packaged_nats(tmp_path, extra_configuration="authorization { user: bot, password: good }") as server:
        url = server.url.replace("//", "//bot:{}@")
        async with hivemem.connect(url.format("good")) as hive:
            assert hive.connection.connected

        started = time.monotonic()
        with pytest.raises(hivemem.Forbidden) as raised:
            await hivemem.connect(url.format("wrong"), connect_timeout_seconds=10)

    assert time.monotonic() - started < 5
    assert "wrong" not in str(raised.value)


async def test_closing_ends_what_waits(fleet: Fleet, hive: hivemem.Hive) -> None:
    fleet.answers["append"] = lambda _: None
    request = asyncio.create_task(hive.sessions.append(session_id="s1", event=NOTE))
    await eventually(lambda: len(fleet.asked) == 1, "the request is under way")
    await hive.close()

    with pytest.raises(RuntimeError, match="closed"):
        await request


async def test_a_last_try_cut_short_does_not_hide_what_was_answered(hive: hivemem.Hive, fleet: Fleet) -> None:
    refused = False

    def once(_: Asked) -> HiveError | None:
        nonlocal refused
        before, refused = refused, True
        return None if before else hivemem.Overloaded("busy", retry_after_ms=1)

    fleet.answers["append"] = once

    with pytest.raises(hivemem.Overloaded, match="busy"):
        await hive.with_options(timeout_seconds=0.3).sessions.append(session_id="s1", event=NOTE)

    assert len(fleet.asked) == 2


async def test_what_a_request_waits_by_itself_comes_on_top_of_the_deadline(hive: hivemem.Hive, fleet: Fleet) -> None:
    granted = LeaseGranted(token=1, expires_at=datetime(2026, 1, 31, tzinfo=UTC))
    fleet.answers["memory.lease"] = lambda asked: granted if len(fleet.asked) == 5 else None
    hurried = hive.with_options(timeout_seconds=0.2, attempt_seconds=0.1)

    reply = await hurried.memory.lease(namespace="user:alice", ttl_ms=1_000, wait_ms=5_000)
    fleet.asked.clear()
    with pytest.raises(hivemem.Unavailable):
        await hurried.memory.lease(namespace="user:alice", ttl_ms=1_000)

    assert reply == granted
    assert len({asked.message_id for asked in fleet.asked}) == 1
