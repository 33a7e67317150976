"""Null is a value of a state key if the write names the key among its nulls; in a delta it deletes the key."""

import pytest

from .hive import Agent, Body

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_null_is_read_back_by_everything_that_shows_state(bot: Agent) -> None:
    await bot.create("s1", initial_state={"a": 1, "dropped": None}, state_nulls=["b", "app:b"])
    await bot.append("s1", state_delta={"c": 3}, state_nulls=["a", "user:n"])
    await bot.ask("state_set", session_id="s1", key="d", value=None, keep_null=True)
    await bot.append("s1", state_delta={"b": None})
    state = {"a": None, "c": 3, "d": None, "user:n": None, "app:b": None}
    session = await bot.session("s1")
    assert session["state"] == state
    assert (await bot.ask("list"))["items"] == [session]
    assert (await bot.ask("state_get", session_id="s1"))["state"] == state
    one = {"state": None, "value": None, "exists": True, "revision": 1}
    assert await bot.ask("state_get", session_id="s1", key="user:n") == one
    assert await bot.ask("state_get", session_id="s1", key="b") == {**one, "exists": False, "revision": 4}
    assert (await bot.ask("fork", session_id="s1", revision=2, new_session_id="s2"))["state"] == {
        "a": None,
        "b": None,
        "c": 3,
        "user:n": None,
        "app:b": None,
    }
    assert [event["state_nulls"] for event in await bot.events("s1")] == [["a", "user:n"], None]


async def test_the_feed_tells_nulls_beside_the_delta(bot: Agent) -> None:
    await bot.create("s1", state_nulls=["user:a"])
    await bot.append("s1", state_nulls=["b", "user:b"])
    await bot.ask("state_set", session_id="s1", key="c", value=None, keep_null=True)
    told = {
        (change.what, change.body["version"]): (
            change.body["value"]["state_delta"],
            change.body["value"]["state_nulls"],
        )
        for change in await bot.feed()
        if change.what in ("event.appended", "state.changed", "session.state_changed")
    }
    assert told == {
        ("state.changed", 1): ({}, ["user:a"]),
        ("event.appended", 1): (None, ["b", "user:b"]),
        ("state.changed", 2): ({}, ["user:b"]),
        ("session.state_changed", 3): ({}, ["c"]),
    }


async def test_a_guard_tells_null_from_a_missing_key(bot: Agent) -> None:
    arrow = {"from": "a", "event": "go", "to": "b", "when": "has(state.x) && state.x == null"}
    machine = {"initial": "a", "states": ["a", "b"], "transitions": [arrow], "open": True}
    await bot.create("s1", machine=machine)
    assert (await bot.refusal("append", session_id="s1", event={"type": "go"})).code == 40903
    await bot.append("s1", state_nulls=["x"])
    await bot.append("s1", "go")
    assert (await bot.session("s1"))["machine"]["state"] == "b"


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"state_nulls": ["a", "b", "a"]}, "state_nulls"),
        ({"state_delta": {"a": 1}, "state_nulls": ["b", "a"]}, "state_nulls"),
        ({"state_delta": {"a": None}, "state_nulls": ["a"]}, "state_nulls"),
        ({"state_nulls": ["k" * 257]}, "state_nulls.0"),
        ({"state_nulls": [f"k{n}" for n in range(1_001)]}, "state_nulls"),
        ({"state_nulls": ["a", "project:x"]}, "state_nulls.1"),
    ],
)
async def test_nulls_that_contradict_the_delta_are_refused(bot: Agent, fields: Body, field: str) -> None:
    await bot.create("s1")
    refused = await bot.refusal("append", {"session_id": "s1", "event": {"type": "note"}, **fields})
    assert (refused.code, refused.context["field"]) == (40001, field)
    assert (await bot.session("s1"))["revision"] == 1


async def test_only_null_is_kept_as_null(bot: Agent) -> None:
    await bot.create("s1")
    refused = await bot.refusal("state_set", session_id="s1", key="a", value=0, keep_null=True)
    assert (refused.code, refused.context["field"]) == (40001, "keep_null")
