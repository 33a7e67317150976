"""Durable commands run the same writes from a stream, once and in order; failed ones become dead letters."""

import asyncio
from typing import Any

import pytest

from hivemem_memory.entities.memories import MEMORY
from hivemem_testing.waiting import DEADLINE_SECONDS

from .hive import NAMESPACE, Agent, Body, eventually

pytestmark = pytest.mark.asyncio(loop_scope="session")


def place(key: str = "k", **fields: Any) -> Body:
    return {"namespace": NAMESPACE, "key": key, **fields}


async def test_commands_do_what_requests_do_in_the_order_of_their_namespace(bot: Agent) -> None:
    for n in range(50):
        await bot.command("put", NAMESPACE, place(value={"n": n}), id=bot.id(f"p{n}"))
    await bot.command("patch", NAMESPACE, place(patch={"m": 1}), id=bot.id("patch"))
    await bot.command("delete", NAMESPACE, place(), id=bot.id("delete"))
    await bot.command("restore", NAMESPACE, place(), id=bot.id("restore"))
    await bot.command("restore", NAMESPACE, place(version=1), id=bot.id("again"))
    await bot.command("put", NAMESPACE, place(value="end"), id=bot.id("end"))
    told = await bot.feed_of(55)
    assert [change.body["version"] for change in told] == list(range(1, 56))
    assert [change.body["value"]["value"] for change in told] == [
        *({"n": n} for n in range(50)),
        {"n": 49, "m": 1},
        None,
        {"n": 49, "m": 1},
        {"n": 0},
        "end",
    ]
    assert [change.body["cause"] for change in told[-5:]] == [
        bot.id(name) for name in ("patch", "delete", "restore", "again", "end")
    ]
    assert {change.body["actor"] for change in told} == {"bot"}
    assert await bot.dead() == []


async def test_one_id_both_ways_is_one_write(bot: Agent) -> None:
    body = place(value=1)
    asked = await bot.ask("put", body, id=bot.id("m1"))
    await bot.command("put", NAMESPACE, body, id=bot.id("m1"))
    await bot.command("put", NAMESPACE, body, id=bot.id("m2"))
    await bot.command("put", NAMESPACE, body, id=bot.id("m3"))
    await bot.feed_of(3)
    again = await bot.ask("put", body, id=bot.id("m2"))
    assert (asked["version"], asked["duplicate"]) == (1, False)
    assert (again["version"], again["duplicate"]) == (2, True)
    assert (await bot.memory("k"))["version"] == 3


@pytest.mark.parametrize(
    ("operation", "route", "body", "code"),
    [
        ("put", NAMESPACE, place(value=1, expect_version=9), 40902),
        ("put", "user:bob", place(value=1), 40001),
        ("put", NAMESPACE, place(), 40001),
        ("put", NAMESPACE, place(value=1, expires_at="2026-01-01T00:00:00Z"), 40001),
        ("put", NAMESPACE, place(value=1, lease={"namespace": NAMESPACE, "token": 1}), 40902),
        ("patch", NAMESPACE, place("none", patch={}), 40401),
        ("delete", NAMESPACE, place("none"), 40401),
        ("restore", NAMESPACE, place(), 40001),
        ("restore", NAMESPACE, place(version=7), 40401),
        ("get", NAMESPACE, place(), 40001),
    ],
)
async def test_what_can_never_succeed_is_a_dead_letter(
    bot: Agent, operation: str, route: str, body: Body, code: int
) -> None:
    await bot.put("k", 1)
    await bot.command(operation, route, body, id=bot.id("m1"))
    [letter] = await bot.letters(1)
    assert letter.subject == f"hive.dead.{bot.tenant}.bot.memory.{operation}"
    assert letter.body == body
    assert letter.headers["Nats-Service-Error-Code"] == str(code)
    assert letter.headers["Hive-Msg-Id"] == bot.id("m1")
    assert await bot.told() == [("memory.put", 1)]


async def replay(bot: Agent, operation: str, route: str, body: Body, id: str) -> None:
    """Replay a dead letter as the client does while the bus still knows its id."""
    await bot.command(operation, route, body, id=f"{id}-replay-{bot.tenant}", headers={"Hive-Msg-Id": id})


async def test_of_a_batch_what_can_be_done_is_done_and_a_replay_does_the_rest(bot: Agent) -> None:
    puts = [place("a", value=1), place("b", value=2, expect_version=1), place("c", value=3)]
    await bot.command("put_batch", "batches", {"puts": puts}, id=bot.id("m1"))
    [letter] = await bot.letters(1)
    assert letter.headers["Nats-Service-Error-Code"] == "40902"
    assert letter.body == {"puts": puts}
    assert await bot.keys() == ["a", "c"]
    await replay(bot, "put_batch", "batches", letter.body, bot.id("m1"))
    assert {each.headers["Hive-Msg-Id"] for each in await bot.letters(2)} == {bot.id("m1")}
    await bot.put("b", 1)
    await bot.command("put_batch", "batches", letter.body, id=bot.id("m2"), headers={"Hive-Msg-Id": bot.id("m1")})

    async def is_done() -> bool:
        return bool((await bot.memory("b"))["value"] == 2)

    await eventually(is_done, "the replay did the rest")
    assert [(await bot.memory(key))["version"] for key in "abc"] == [1, 2, 1]
    assert len(await bot.dead()) == 2


async def test_a_batch_that_is_published_twice_is_done_once(bot: Agent) -> None:
    puts = [place(f"k{n}", value=n) for n in range(5)]
    await bot.command("put_batch", "batches", {"puts": puts}, id=bot.id("m1"))
    await replay(bot, "put_batch", "batches", {"puts": puts}, bot.id("m1"))
    await bot.command("put", "user:other", {"namespace": "user:other", "key": "end", "value": 1})
    await bot.feed_of(6)
    answer = await bot.ask("put_batch", puts=puts, id=bot.id("m1"))
    assert [(result["version"], result["duplicate"]) for result in answer["results"]] == [(1, True)] * 5
    assert await bot.dead() == []


@pytest.mark.parametrize("erased", [{"key": "k"}, {}])
async def test_what_was_published_before_an_erasure_stays_gone(
    bot: Agent, monkeypatch: pytest.MonkeyPatch, erased: Body
) -> None:
    """The command waits in the stream while its memory, or its namespace without that memory, is erased. Commands that
    are published afterwards begin a new life."""
    ledger = bot.ledger
    await bot.put("k", "old")
    keys = ["k", *([] if erased else ["new"])]
    commit, taken, done = ledger.commit, asyncio.Event(), asyncio.Event()

    def hold(write: Any) -> Any:
        """Hold the commands until the erasure is done. The second one may wait behind the first one."""
        if write.entity is not MEMORY or write.tenant != bot.tenant or done.is_set():
            return commit(write)
        taken.set()
        return asyncio.ensure_future(released(write))

    async def released(write: Any) -> Any:
        await done.wait()
        return await commit(write)

    monkeypatch.setattr(ledger, "commit", hold)
    for key in keys:
        await bot.command("put", NAMESPACE, place(key, value="late"), id=bot.id(f"late-{key}"))
    await asyncio.wait_for(taken.wait(), DEADLINE_SECONDS)
    receipt = await bot.ask("erase", namespace=NAMESPACE, **erased)
    assert (receipt["status"], receipt["entries"]) == ("done", 1)
    done.set()
    letters = await bot.letters(len(keys))
    assert {letter.headers["Nats-Service-Error-Code"] for letter in letters} == {"40401"}
    assert all("erased after this was published" in letter.headers["Nats-Service-Error"] for letter in letters)
    assert await bot.keys() == []
    for key in keys:
        await bot.command("put", NAMESPACE, place(key, value="new"), id=bot.id(f"new-{key}"))

    async def are_new() -> bool:
        return bool(await bot.keys() == sorted(keys))

    await eventually(are_new, "what came later is there")
    assert {(await bot.memory(key))["value"] for key in keys} == {"new"}


async def test_what_is_published_behind_an_erasure_comes_after_it(bot: Agent) -> None:
    for turn in range(3):
        await bot.command("put", NAMESPACE, place(value=turn), id=bot.id(f"p{turn}"))
        await bot.command("erase", NAMESPACE, {"namespace": NAMESPACE}, id=bot.id(f"e{turn}"))
    puts = [place(value="end"), place("new", value="end")]
    for put in puts:
        await bot.command("put", NAMESPACE, put, id=bot.id(f"end-{put['key']}"))

    async def are_there() -> bool:
        return bool(await bot.keys() == ["k", "new"])

    await eventually(are_there, "the last ones are there")
    assert await bot.dead() == []
    assert (await bot.memory("k"))["value"] == "end"
