"""Durable commands run the same operations from a stream, once and in order, or become dead letters."""

import asyncio
from typing import Any

import pytest

from hivemem_contracts.errors import Unavailable

from .hive import Agent, Body, eventually

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_commands_do_what_requests_do_in_their_order(bot: Agent) -> None:
    body: Body = {"app_name": "app", "user_id": "user"}
    await bot.command("create", "s 1", body, id=bot.id("c"))
    for n in range(20):
        await bot.command(
            "append", "s 1", {"session_id": "s 1", "event": {"type": "n", "content": n}}, id=bot.id(f"a{n}")
        )
    await bot.command("state_set", "s 1", {"session_id": "s 1", "key": "k", "value": 1})
    await bot.command("terminate", "s 1", {"session_id": "s 1"}, id=bot.id("t"))
    told = await bot.feed_of(24)
    assert [change.body["value"]["content"] for change in told if change.what == "event.appended"] == list(range(20))
    assert [change.body["cause"] for change in told if change.what == "event.appended"] == [
        bot.id(f"a{n}") for n in range(20)
    ]
    session = await bot.session("s 1")
    assert (session["status"], session["state"], session["revision"]) == ("terminated", {"k": 1}, 23)


async def test_one_id_both_ways_is_one_write(bot: Agent) -> None:
    await bot.create("s1")
    body: Body = {"session_id": "s1", "event": {"type": "n"}}
    asked = await bot.ask("append", body, id=bot.id("m1"))
    await bot.command("append", "s1", body, id=bot.id("m1"))
    await bot.command("append", "s1", body, id=bot.id("m2"))
    await bot.command("append", "s1", body, id=bot.id("m2"))
    await bot.feed_of(4)
    again = await bot.ask("append", body, id=bot.id("m2"))
    assert (again["sequence"], again["duplicate"]) == (2, True)
    assert (asked["sequence"], asked["duplicate"]) == (1, False)
    await bot.command("append", "s1", body, id=bot.id("m3"))
    await bot.feed_of(5)
    assert await bot.sequences("s1") == [1, 2, 3]


async def test_every_write_of_several_steps_may_be_a_command(bot: Agent) -> None:
    await bot.create("s1")
    appends = [{"session_id": "s1", "event": {"type": "n", "content": n}} for n in range(5)]
    for _ in range(2):
        await bot.command("append_batch", "s1", {"appends": appends}, id=bot.id("batch"))
    for _ in range(2):
        await bot.command("fork", "s1", {"session_id": "s1", "new_session_id": "f"}, id=bot.id("fork"))
    for _ in range(2):
        await bot.command("delete", "s1", {"session_id": "s1"}, id=bot.id("delete"))
    definition = {"initial": "a", "states": ["a"], "transitions": []}
    await bot.command("machine_put", "m", {"name": "m", "definition": definition}, id=bot.id("machine"))
    told = [change.what for change in await bot.feed_of(9)]
    assert told.count("event.appended") == 5
    assert told[-2:] == ["session.forked", "session.deleted"]
    assert await bot.sequences("f") == [1, 2, 3, 4, 5]

    async def machine_is_there() -> bool:
        try:
            return bool((await bot.ask("machine_get", name="m"))["version"] == 1)
        except Exception:
            return False

    await eventually(machine_is_there, "the machine is stored")
    assert await bot.dead() == []


@pytest.mark.parametrize(
    ("operation", "route", "body", "code"),
    [
        ("append", "nobody", {"session_id": "nobody", "event": {"type": "n"}}, 40401),
        ("append", "s1", {"session_id": "other", "event": {"type": "n"}}, 40001),
        ("append", "s1", {"session_id": "s1", "event": {"type": "n"}, "tenant": "x"}, 40001),
        ("append", "s1", {"session_id": "s1", "event": {"type": "n"}, "expect_revision": 9}, 40902),
        ("create", "s1", {"app_name": "a", "user_id": "u"}, 40901),
        ("get", "s1", {"session_id": "s1"}, 40001),
        ("delete", "nobody", {"session_id": "nobody"}, 40401),
    ],
)
async def test_what_can_never_succeed_is_a_dead_letter(
    bot: Agent, operation: str, route: str, body: Body, code: int
) -> None:
    await bot.create("s1")
    await bot.command(operation, route, body, id=bot.id("m1"))
    [letter] = await bot.letters(1)
    assert letter.subject == f"hive.dead.{bot.tenant}.bot.sessions.{operation}"
    assert letter.body == body
    assert letter.headers["Nats-Service-Error-Code"] == str(code)
    assert letter.headers["Hive-Msg-Id"] == bot.id("m1")
    assert letter.headers["Hive-Subject"] == f"hive.in.{bot.tenant}.bot.sessions.{operation}.{route}"
    assert await bot.told() == [("session.created", 1)]


async def test_a_batch_with_a_part_that_is_refused_is_a_dead_letter_and_the_rest_is_done(bot: Agent) -> None:
    await bot.create("s1")
    appends = [{"session_id": name, "event": {"type": "n"}} for name in ("s1", "nobody", "s1")]
    await bot.command("append_batch", "s1", {"appends": appends}, id=bot.id("m1"))
    [letter] = await bot.letters(1)
    assert letter.headers["Nats-Service-Error-Code"] == "40401"
    assert await bot.sequences("s1") == [1, 2]


async def test_a_batch_is_tried_again_while_the_store_refuses_a_part(
    bot: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    await bot.create("s1")
    ledger = bot.ledger
    commit, refusals = ledger.commit, list[int]()

    def sometimes(write: Any) -> Any:
        if write.tenant == bot.tenant and len(refusals) < 3:
            refusals.append(1)
            future = asyncio.get_running_loop().create_future()
            future.set_exception(Unavailable("down", retry_after_ms=1))
            return future
        return commit(write)

    monkeypatch.setattr(ledger, "commit", sometimes)
    appends = [{"session_id": "s1", "event": {"type": "n", "content": n}} for n in range(2)]
    await bot.command("append_batch", "s1", {"appends": appends}, id=bot.id("m1"))
    await bot.feed_of(4)
    assert [event["content"] for event in await bot.events("s1")] in ([0, 1], [1, 0])
    assert len(refusals) == 3
