"""One idempotency key means one command, for each operation that writes."""

from typing import Any

import orjson
import pytest

from hivemem_contracts.sessions.operations import SESSIONS
from hivemem_testing.idempotency import check_one_command, writes_of

from .hive import Agent, Body, eventually

pytestmark = pytest.mark.asyncio(loop_scope="session")

OWNER = {"app_name": "app", "user_id": "user"}
MACHINE = {"initial": "open", "states": ["open", "done"], "transitions": [{"from": "open", "event": "e", "to": "done"}]}


async def two_sessions(bot: Agent, **fields: Any) -> tuple[Body, Body]:
    await bot.create("s1")
    await bot.create("s2")
    return {"session_id": "s1", **fields}, {"session_id": "s2", **fields}


def event(content: str, **fields: Any) -> Body:
    return {"event": {"type": "note", "content": content, **fields}}


async def create(bot: Agent) -> tuple[Body, Body]:
    return {"session_id": "s1", **OWNER}, {"session_id": "s2", **OWNER}


async def append(bot: Agent) -> tuple[Body, Body]:
    return await two_sessions(bot, **event("same"))


async def append_batch(bot: Agent) -> tuple[Body, Body]:
    one, two = await two_sessions(bot)
    # Only the second part writes, so the first one has no stored id of its own.
    return {"appends": [{"session_id": "none", **event("a")}, {**one, **event("b")}]}, {
        "appends": [{**two, **event("c")}, {**one, **event("d", event_id="own")}]
    }


async def state_set(bot: Agent) -> tuple[Body, Body]:
    await bot.create("s1")
    body = {"session_id": "s1", "key": "k"}
    return {**body, "value": {"a": 1, "b": 2}}, {**body, "value": {"a": 1, "b": 3}}


async def update(bot: Agent) -> tuple[Body, Body]:
    return await two_sessions(bot, project_id="p")


async def set_status(bot: Agent) -> tuple[Body, Body]:
    return await two_sessions(bot, status="active")


async def ended(bot: Agent) -> tuple[Body, Body]:
    bodies = await two_sessions(bot)
    for body in bodies:
        await bot.ask("terminate", body)
    return bodies


async def fork(bot: Agent) -> tuple[Body, Body]:
    await bot.create("s1")
    return {"session_id": "s1", "new_session_id": "f1"}, {"session_id": "s1", "new_session_id": "f2"}


async def app_put(bot: Agent) -> tuple[Body, Body]:
    return {"app_name": "a", "state_indexes": ["x"]}, {"app_name": "a", "state_indexes": ["y"]}


async def machine_put(bot: Agent) -> tuple[Body, Body]:
    return {"name": "a", "definition": MACHINE}, {"name": "b", "definition": MACHINE}


CASES = {
    "create": create,
    "append": append,
    "append_batch": append_batch,
    "state_set": state_set,
    "update": update,
    "set_status": set_status,
    "terminate": two_sessions,
    "archive": ended,
    "delete": two_sessions,
    "fork": fork,
    "app_put": app_put,
    "machine_put": machine_put,
}


async def test_each_operation_that_writes_has_a_case() -> None:
    assert list(CASES) == writes_of(SESSIONS)


@pytest.mark.parametrize("operation", CASES)
async def test_one_id_is_one_command(bot: Agent, operation: str) -> None:
    await check_one_command(bot, operation, CASES[operation])


@pytest.mark.parametrize(
    "other", [event("other"), event("first", event_id="own"), {**event("first"), "state_delta": {}}]
)
async def test_append_refuses_another_event_under_its_id(bot: Agent, other: Body) -> None:
    await bot.create("s1")
    await bot.ask("append", {"session_id": "s1", **event("first")}, id="m1")

    assert (await bot.refusal("append", {"session_id": "s1", **other}, id="m1")).code == 40906
    assert await bot.sequences("s1") == [1]


async def test_null_for_an_optional_field_says_the_same_as_leaving_it_out(bot: Agent) -> None:
    await bot.create("s1")
    first = await bot.ask("append", {"session_id": "s1", **event("e")}, id="m1")

    spelled_out = {"session_id": "s1", **event("e", event_id=None), "expect_revision": None, "state_delta": None}
    assert await bot.ask("append", spelled_out, id="m1") == {**first, "duplicate": True}


async def test_an_event_id_of_the_workers_own_is_an_event_id_like_any_other(bot: Agent) -> None:
    """A client that copies an event from elsewhere also copies its id."""
    await two_sessions(bot)
    first = await bot.ask("append", {"session_id": "s1", **event("e")}, id="m1")
    copy = event("e", event_id=first["event_id"])

    again = await bot.ask("append", {"session_id": "s1", **copy}, id="m2")
    assert again == {**first, "duplicate": True}
    for duplicate in (False, True):
        elsewhere = await bot.ask("append", {"session_id": "s2", **copy}, id=None)
        assert (elsewhere["sequence"], elsewhere["duplicate"]) == (1, duplicate)


async def test_a_command_and_a_request_of_one_id_are_one_command(bot: Agent) -> None:
    """The command omits the field of its route; the request has it, and its fields are in another order."""
    await bot.create("s1")
    id = bot.id("m1")
    await bot.command("append", "s1", {"session_id": "s1", **event("e")}, id=id)
    await eventually(lambda: _has_events(bot, 1), "the command is done")

    answer = await bot.ask("append", {**event("e"), "session_id": "s1"}, id=id)
    assert (answer["sequence"], answer["duplicate"]) == (1, True)
    assert (await bot.refusal("append", {"session_id": "s1", **event("other")}, id=id)).code == 40906

    await bot.command("append", "s1", {"session_id": "s1", **event("other")}, headers={"Hive-Msg-Id": id})
    (letter,) = await bot.letters(1)
    assert letter.headers["Nats-Service-Error-Code"] == "40906"
    assert await bot.sequences("s1") == [1]


async def test_one_key_of_two_operations_and_two_agents_at_once_is_four_commands(bot: Agent) -> None:
    """The subject limits the scope of a key, so neither the server nor a header mixes up commands of two agents."""
    other = bot.called("other")
    await two_sessions(bot)
    headers = {"Hive-Msg-Id": "one"}
    for agent, session_id in ((bot, "s1"), (other, "s2")):
        await agent.command("append", session_id, {"session_id": session_id, **event(agent.name)}, headers=headers)
        body = {"session_id": session_id, "key": "by", "value": agent.name}
        await agent.command("state_set", session_id, body, headers=headers)

    async def all_done() -> bool:
        sessions = [await bot.session(session_id) for session_id in ("s1", "s2")]
        found = [(session["event_count"], session["state"]) for session in sessions]
        return found == [(1, {"by": "bot"}), (1, {"by": "other"})]

    await eventually(all_done, "all four are done")
    assert await bot.dead() == []


async def test_a_request_goes_by_the_same_header(bot: Agent) -> None:
    await bot.create("s1")
    body = orjson.dumps({"session_id": "s1", **event("e")})
    both = {"Hive-Msg-Id": "m1", "Nats-Msg-Id": "m2"}
    first = await bot.send("append", body, headers=both)

    assert await bot.send("append", body, id="m1") == {**first, "duplicate": True}
    assert (await bot.send("append", body, id="m2"))["duplicate"] is False


async def _has_events(bot: Agent, count: int) -> bool:
    return len(await bot.sequences("s1")) == count
