"""Creating sessions, as contract.md describes it."""

from datetime import datetime

import pytest

from .hive import Agent

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_a_new_session_is_answered_whole(bot: Agent) -> None:
    made = await bot.create(
        "s1", project_id="p", metadata={"k": [1]}, initial_state={"a": 1, "session:b": 2, "temp:c": 3}
    )
    moment = made.pop("created_at")
    assert made.pop("updated_at") == moment
    assert moment.endswith("Z")
    assert len(moment) == len("2026-01-31T09:30:00.000001Z")
    assert datetime.fromisoformat(moment).utcoffset() is not None
    assert made.pop("duplicate") is False
    assert made == {
        "session_id": "s1",
        "app_name": "app",
        "user_id": "user",
        "project_id": "p",
        "status": "created",
        "state": {"a": 1, "session:b": 2, "temp:c": 3},
        "metadata": {"k": [1]},
        "revision": 1,
        "event_count": 0,
        "terminated_at": None,
        "archived_at": None,
        "machine": None,
        "forked_from": None,
    }
    assert await bot.session("s1") == made | {"created_at": moment, "updated_at": moment}


async def test_an_id_that_is_left_out_is_a_ulid(bot: Agent) -> None:
    made = await bot.ask("create", app_name="app", user_id="user")
    assert len(made["session_id"]) == 26
    assert {**await bot.session(made["session_id"]), "duplicate": False} == made


async def test_initial_state_is_split_by_prefix(bot: Agent) -> None:
    state = {"a": 1, "user:u": 2, "app:a": 3, "project:p": 4, "gone": None}
    made = await bot.create("s1", project_id="p1", initial_state=state)
    assert made["state"] == {"a": 1, "user:u": 2, "app:a": 3, "project:p": 4}
    assert (await bot.create("same-user", app_name="b"))["state"] == {"user:u": 2}
    assert (await bot.create("same-app", user_id="b"))["state"] == {"app:a": 3}
    assert (await bot.create("same-project", user_id="b", app_name="b", project_id="p1"))["state"] == {"project:p": 4}
    assert (await bot.create("stranger", user_id="b", app_name="b"))["state"] == {}


async def test_an_id_that_is_there_is_refused(bot: Agent) -> None:
    await bot.create("s1", initial_state={"a": 1})
    refused = await bot.refusal("create", session_id="s1", app_name="other", user_id="other")
    assert (refused.code, refused.error["name"], refused.context) == (40901, "AlreadyExists", {"session_id": "s1"})
    assert (await bot.session("s1"))["state"] == {"a": 1}


async def test_the_same_request_again_hears_of_the_same_session(bot: Agent) -> None:
    first = await bot.ask("create", id="m1", app_name="app", user_id="user")
    await bot.append(first["session_id"], state_delta={"later": 1})
    again = await bot.ask("create", id="m1", app_name="app", user_id="user")
    assert again == {**first, "duplicate": True}
    assert [item["session_id"] for item in (await bot.ask("list"))["items"]] == [first["session_id"]]


async def test_the_message_id_belongs_to_one_agent(bot: Agent) -> None:
    first = await bot.ask("create", id="m1", app_name="app", user_id="user")
    other = await bot.called("another").ask("create", id="m1", app_name="app", user_id="user")
    assert other["session_id"] != first["session_id"]


async def test_ids_of_any_script_work_everywhere(bot: Agent) -> None:
    agent = bot.called("агент.*>")
    session_id = "séance > 日本.* %k 🐝"
    made = await agent.create(session_id, user_id="ü ser", app_name="app.>", id="id-ü")
    assert made["session_id"] == session_id
    appended = await agent.append(session_id, "type ü", event_id="é.1", state_delta={"user:ключ": "è"})
    assert appended["event_id"] == "é.1"
    [event] = await agent.events(session_id, type="type ü", author="агент.*>")
    assert event["author"] == "агент.*>"
    told = {change.what: change for change in await agent.feed()}
    assert told["event.appended"].body["namespace"] == session_id
    assert told["state.changed"].body["namespace"] == "user:ü ser"
    assert told["event.appended"].headers["ce-subject"] == told["event.appended"].subject.split(".", 4)[4].replace(
        "%", "%25"
    )
    refused = await agent.refusal("get", session_id="nö")
    assert "nö" in refused.headers["Nats-Service-Error"]


async def test_ids_of_full_length_work_and_longer_ones_do_not(bot: Agent) -> None:
    longest = "x" * 256
    await bot.create(longest, user_id=longest, app_name=longest, project_id=longest)
    assert (await bot.append(longest, longest, event_id=longest))["sequence"] == 1
    refused = await bot.refusal("create", session_id=longest + "x", app_name="a", user_id="u")
    assert (refused.code, refused.context["field"]) == (40001, "session_id")


async def test_ids_whose_changes_would_have_too_long_a_subject_are_refused_at_once(bot: Agent) -> None:
    wide = "🐝" * 256
    agent = Agent(bot.client, bot.worker, f"{bot.tenant}-{'é' * 150}", "bot")
    for fields in ({"session_id": wide}, {"user_id": wide}, {"app_name": wide}, {"project_id": wide}):
        refused = await agent.refusal("create", {"session_id": "s", "app_name": "a", "user_id": "u"} | fields)
        assert (refused.code, refused.context["field"], refused.context["limit"]) == (41301, "subject", 3_500)
    await agent.create("origin")
    refused = await agent.refusal("fork", session_id="origin", new_session_id=wide)
    assert (refused.code, refused.context["field"]) == (41301, "subject")
    assert await agent.told() == [("session.created", 1)]


async def test_tenants_do_not_see_each_other(bot: Agent) -> None:
    other = Agent(bot.client, bot.worker, f"{bot.tenant}-other")
    await bot.create("s1", initial_state={"user:x": 1})
    await bot.append("s1", event_id="e1")
    refused = await other.refusal("get", session_id="s1")
    assert refused.code == 40401
    assert (await other.ask("list"))["items"] == []
    assert (await other.create("s1"))["state"] == {}
    assert (await other.append("s1", event_id="e1"))["duplicate"] is False
    assert [told.body["tenant"] for told in await other.feed()] == [other.tenant] * 3
