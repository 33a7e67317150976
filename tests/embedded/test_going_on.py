"""Acknowledged data survives every restart, and the fleet recovers when its nats-server dies alone."""

import http.client
import os
import signal
from typing import Any, cast
from urllib.parse import urlsplit

import orjson

import hivemem

from .asking import append_event, contents, create_session, remember, remembered, save, saved
from .conftest import StartUp
from .up import Up, eventually

EVENTS = 20


async def test_everything_is_there_after_a_restart(start_up: StartUp) -> None:
    up = start_up().ready()
    await create_session(up.nats, "s1")
    for number in range(1, EVENTS + 1):
        await append_event(up.nats, "s1", number)
    assert await remember(up.nats, "k", {"n": 1}) == 1
    assert await save(up.nats, "a.txt", b"one") == 1
    assert up.stop() == 0
    again = start_up().ready()
    assert await contents(again.nats, "s1") == list(range(1, EVENTS + 1))
    await append_event(again.nats, "s1", EVENTS + 1)
    assert await remembered(again.nats, "k") == {"n": 1}
    assert await remember(again.nats, "k", 2) == 2
    assert await saved(again.nats, "a.txt") == b"one"
    assert await save(again.nats, "a.txt", b"two") == 2


async def test_everything_is_there_after_kill_9_and_each_next_one_starts(start_up: StartUp) -> None:
    number = 0
    for _ in range(5):
        up = start_up().ready()
        if number == 0:
            await create_session(up.nats, "s1")
        assert await contents(up.nats, "s1") == list(range(1, number + 1))
        if number:
            assert await remembered(up.nats, "k") == number
            assert await saved(up.nats, "a.txt") == b"%d" % number
        for _ in range(5):
            number += 1
            await append_event(up.nats, "s1", number)
            assert await remember(up.nats, "k", number) == number
            assert await save(up.nats, "a.txt", b"%d" % number) == number
        up.kill()


async def test_an_agent_goes_on_after_kill_9_with_its_state_its_files_and_its_cycle(start_up: StartUp) -> None:
    up = start_up().ready()
    async with (
        hivemem.connect(up.nats) as hive,
        hivemem.Runner.of(hive, session_id="s1", app_name="a", user_id="u", agent_id="scout") as runner,
    ):
        await runner.save_state({"done": 1, "user:language": "en"})
        await runner.save_state({"done": 2})
        url = (await runner.save_artifact("notes/day 1.txt", b"by ferry")).url
        await runner.step("book").__aenter__()
        up.kill()
    up = start_up().ready()
    async with hivemem.connect(up.nats) as hive, hivemem.Runner.of(hive, session_id="s1", agent_id="scout") as runner:
        assert await runner.load_state() == {"done": 2, "user:language": "en"}
        assert await hive.artifacts.read(url) == b"by ferry"
        (file,) = (up.data / "artifacts" / "s1").glob("*.txt")
        assert file.read_bytes() == b"by ferry"
        async with runner.step("book") as step:
            assert step.cycle == 1


async def test_its_nats_server_is_started_again(start_up: StartUp) -> None:
    up = start_up().ready()
    await create_session(up.nats, "s1")
    for number in (1, 2, 3):
        kill_server(up)
        eventually(lambda: page(up.http, "/readyz")[0] == 200, "the fleet is ready again")
        await append_event(up.nats, "s1", number)
    assert up.stop() == 0


def kill_server(up: Up) -> None:
    """Kill the nats-server and wait until there is another one."""
    killed = up.nats_pid()
    os.kill(killed, signal.SIGKILL)
    eventually(lambda: up.nats_pid() not in (0, killed), "another server")


def test_health_pages(start_up: StartUp) -> None:
    up = start_up().ready()
    assert page(up.http, "/healthz") == (200, {"status": "ok"})
    for path in ("/readyz", "/status"):
        code, body = page(up.http, path)
        assert (code, body["ready"]) == (200, True)
        assert {name: worker["store_ready"] for name, worker in body["workers"].items()} == {
            "agents": True,
            "artifacts": True,
            "memory": True,
            "sessions": True,
            "vectors": True,
            "windows": True,
        }
    code, body = page(up.http, "/nothing")
    assert code == 404
    assert "/readyz" in body["error"]


def page(url: str, path: str) -> tuple[int, dict[str, Any]]:
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=10)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, cast("dict[str, Any]", orjson.loads(answer.read()))
    finally:
        connection.close()
