"""State is read by key or whole, written conditionally, limited in size; shared scopes have their own revisions."""

import pytest

from .hive import Agent, Body

pytestmark = pytest.mark.asyncio(loop_scope="session")

STATE_BYTES = 524_288
VALUE_BYTES = 262_144


async def set_key(bot: Agent, key: str, value: object, *, id: str | None = None, **fields: object) -> Body:
    return await bot.ask("state_set", {"session_id": "s1", "key": key, "value": value, **fields}, id=id)


async def test_one_key_or_all_of_them(bot: Agent) -> None:
    await bot.create("s1", initial_state={"a": {"deep": 1}, "user:x": 2})
    assert await bot.ask("state_get", session_id="s1") == {
        "state": {"a": {"deep": 1}, "user:x": 2},
        "value": None,
        "exists": None,
        "revision": 1,
    }
    one = {"state": None, "value": {"deep": 1}, "exists": True, "revision": 1}
    assert await bot.ask("state_get", session_id="s1", key="a") == one
    assert (await bot.ask("state_get", session_id="s1", key="unknown"))["value"] is None


async def test_a_key_is_set_and_deleted(bot: Agent) -> None:
    await bot.create("s1")
    assert await set_key(bot, "a", [1]) == {"session_id": "s1", "key": "a", "revision": 2, "duplicate": False}
    assert await set_key(bot, "temp:b", False) == {
        "session_id": "s1",
        "key": "temp:b",
        "revision": 3,
        "duplicate": False,
    }
    assert (await bot.session("s1"))["state"] == {"a": [1], "temp:b": False}
    await set_key(bot, "a", None)
    session = await bot.session("s1")
    assert (session["state"], session["revision"], session["status"]) == ({"temp:b": False}, 4, "created")


async def test_a_stale_revision_is_refused(bot: Agent) -> None:
    await bot.create("s1")
    await set_key(bot, "a", 1, expect_revision=1)
    refused = await bot.refusal("state_set", session_id="s1", key="a", value=2, expect_revision=1)
    assert (refused.code, refused.context) == (40902, {"expected": 1, "actual": 2})
    assert (await bot.session("s1"))["state"] == {"a": 1}


async def test_a_shared_scope_has_a_revision_of_its_own(bot: Agent) -> None:
    await bot.create("s1")
    missing = {"state": None, "value": None, "exists": False, "revision": 0}
    assert await bot.ask("state_get", session_id="s1", key="user:x") == missing
    assert (await set_key(bot, "user:x", 1, expect_revision=0))["revision"] == 1
    await bot.append("s1", state_delta={"user:y": 2})
    assert (await bot.ask("state_get", session_id="s1", key="user:x"))["revision"] == 2
    assert (await set_key(bot, "user:x", 3, expect_revision=2))["revision"] == 3
    refused = await bot.refusal("state_set", session_id="s1", key="user:x", value=4, expect_revision=2)
    assert refused.context == {"expected": 2, "actual": 3}
    session = await bot.session("s1")
    assert (session["revision"], session["state"]) == (2, {"user:x": 3, "user:y": 2})


async def test_the_same_request_again_sets_nothing(bot: Agent) -> None:
    await bot.create("s1")
    for key in ("a", "user:x"):
        first = await set_key(bot, key, 1, id=f"m-{key}", expect_revision=0 if key == "user:x" else 1)
        await set_key(bot, key, 2)
        again = await set_key(bot, key, 1, id=f"m-{key}", expect_revision=0 if key == "user:x" else 1)
        assert again == {**first, "duplicate": True}
    assert (await bot.session("s1"))["state"] == {"a": 2, "user:x": 2}


async def test_project_state_needs_a_project(bot: Agent) -> None:
    await bot.create("s1")
    refused = await bot.refusal("state_set", session_id="s1", key="project:x", value=1)
    assert (refused.code, refused.context["field"]) == (40001, "key")
    delta = {"session_id": "s1", "event": {"type": "n"}, "state_delta": {"a": 1, "user:b": 2, "project:x": 1}}
    refused = await bot.refusal("append", delta)
    assert (refused.code, refused.context["field"]) == (40001, "state_delta.project:x")
    refused = await bot.refusal(
        "create", session_id="s2", app_name="app", user_id="user", initial_state={"project:x": 1}
    )
    assert (refused.code, refused.context["field"]) == (40001, "initial_state.project:x")
    assert (await bot.ask("state_get", session_id="s1", key="project:x")) == {
        "state": None,
        "value": None,
        "exists": False,
        "revision": 0,
    }
    assert await bot.told() == [("session.created", 1)]


async def test_a_value_over_its_limit_is_refused_by_name(bot: Agent) -> None:
    await bot.create("s1")
    fits = "x" * (VALUE_BYTES - 2)
    await set_key(bot, "a", fits)
    refused = await bot.refusal("state_set", session_id="s1", key="b", value=fits + "x")
    assert (refused.code, refused.context) == (
        41301,
        {"field": "value", "limit": VALUE_BYTES, "actual": VALUE_BYTES + 1},
    )
    event = {"session_id": "s1", "event": {"type": "n", "content": fits + "x"}}
    assert (await bot.refusal("append", event)).context["field"] == "event.content"
    event = {"session_id": "s1", "event": {"type": "n"}, "state_delta": {"k": 1, "large": fits + "x"}}
    assert (await bot.refusal("append", event)).context["field"] == "state_delta.large"
    event = {"session_id": "s1", "event": {"type": "n", "metadata": {"m": fits}}}
    assert (await bot.refusal("append", event)).context["field"] == "event.metadata"


@pytest.mark.parametrize("prefix", ["", "user:"])
async def test_a_scope_over_its_limit_is_refused_and_shrinks_again(bot: Agent, prefix: str) -> None:
    await bot.create("s1")
    half = "x" * (STATE_BYTES // 2 - 40)
    await set_key(bot, f"{prefix}a", half)
    await set_key(bot, f"{prefix}b", half)
    refused = await bot.refusal("state_set", session_id="s1", key=f"{prefix}c", value="x" * 80)
    assert (refused.code, refused.context["limit"], refused.context["field"]) == (41301, STATE_BYTES, "value")
    event = {"session_id": "s1", "event": {"type": "n"}, "state_delta": {f"{prefix}c": "x" * 80}}
    refused = await bot.refusal("append", event)
    assert (refused.code, refused.context["field"]) == (41301, "state_delta")
    assert refused.context["actual"] > STATE_BYTES
    await set_key(bot, f"{prefix}a", None)
    await set_key(bot, f"{prefix}c", "x" * 80)
    key = await bot.ask("state_get", session_id="s1", key=f"{prefix}c")
    assert key["value"] == "x" * 80


async def test_a_shared_scope_is_read_without_a_session(bot: Agent) -> None:
    fields = {"scope": "project", "scope_id": "p:1"}
    assert await bot.ask("state_get", fields) == {"state": {}, "value": None, "exists": None, "revision": 0}
    await bot.create("s1", project_id="p:1", initial_state={"own": 1, "project:x": 1, "app:y": 2})
    await bot.append("s1", state_delta={"project:x": 3})
    await bot.ask("delete", session_id="s1")
    assert await bot.ask("state_get", fields) == {
        "state": {"project:x": 3},
        "value": None,
        "exists": None,
        "revision": 2,
    }
    one = {"state": None, "value": 3, "exists": True, "revision": 2}
    assert await bot.ask("state_get", {**fields, "key": "project:x"}) == one


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({}, "session_id"),
        ({"key": "user:x"}, "session_id"),
        ({"session_id": "s1", "scope": "user"}, "scope"),
        ({"session_id": "s1", "scope_id": "ann"}, "scope_id"),
        ({"scope": "user"}, "scope_id"),
        ({"scope_id": "ann"}, "scope"),
        ({"scope": "session", "scope_id": "s1"}, "scope"),
        ({"scope": "user", "scope_id": "ann", "key": "x"}, "key"),
        ({"scope": "user", "scope_id": "ann", "key": "app:x"}, "key"),
    ],
)
async def test_state_is_that_of_a_session_or_of_a_scope(bot: Agent, fields: Body, field: str) -> None:
    refused = await bot.refusal("state_get", fields)
    assert (refused.code, refused.context["field"]) == (40001, field)


async def test_state_of_no_session_is_not_found(bot: Agent) -> None:
    assert (await bot.refusal("state_get", session_id="nobody")).code == 40401
    assert (await bot.refusal("state_set", session_id="nobody", key="user:x", value=1)).code == 40401
