"""Forks share history up to a revision, and differ after it."""

import pytest

from .hive import Agent

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def origin(bot: Agent, events: int = 5) -> None:
    """Create a session: revision 1 creates it, and revision n + 1 has n events."""
    await bot.create("origin", project_id="p", metadata={"m": 1}, initial_state={"temp:t": 0, "user:u": 0})
    for n in range(1, events + 1):
        await bot.append(
            "origin", f"type-{n % 2}", content=f"origin {n}", state_delta={"n": n, "temp:t": n, "user:u": n}
        )


async def contents(bot: Agent, session_id: str, **fields: object) -> list[str]:
    return [event["content"] for event in await bot.events(session_id, **fields)]


async def test_a_fork_is_answered_whole(bot: Agent) -> None:
    await origin(bot)
    fork = await bot.ask("fork", session_id="origin", revision=4, new_session_id="f")
    for field in ("created_at", "updated_at"):
        assert fork[field] > (await bot.session("origin"))["updated_at"]
    fork = {name: value for name, value in fork.items() if not name.endswith("_at")}
    assert fork == {
        "session_id": "f",
        "app_name": "app",
        "user_id": "user",
        "project_id": "p",
        "status": "active",
        "state": {"n": 3, "user:u": 5},
        "metadata": {"m": 1},
        "revision": 1,
        "event_count": 3,
        "machine": None,
        "forked_from": {"session_id": "origin", "revision": 4, "sequence": 3},
        "duplicate": False,
    }


async def test_a_fork_goes_its_own_way(bot: Agent) -> None:
    await origin(bot, 3)
    await bot.ask("fork", session_id="origin", revision=3, new_session_id="f")
    assert (await bot.append("f", content="fork 3", state_delta={"n": "f"}))["sequence"] == 3
    await bot.append("origin", content="origin 4")
    assert await contents(bot, "f") == ["origin 1", "origin 2", "fork 3"]
    assert await contents(bot, "f", reverse=True, limit=2) == ["fork 3", "origin 2", "origin 1"]
    assert await contents(bot, "origin") == ["origin 1", "origin 2", "origin 3", "origin 4"]
    assert (await bot.session("origin"))["state"]["n"] == 3
    newest = await bot.ask("get", session_id="f", events=2)
    assert [event["content"] for event in newest["events"]] == ["origin 2", "fork 3"]


async def test_a_fork_of_now_has_an_id_of_its_own(bot: Agent) -> None:
    await origin(bot, 2)
    fork = await bot.ask("fork", session_id="origin")
    assert (len(fork["session_id"]), fork["event_count"]) == (26, 2)
    assert fork["forked_from"] == {"session_id": "origin", "revision": 3, "sequence": 2}


async def test_forks_of_forks_read_through_all_their_origins(bot: Agent) -> None:
    await origin(bot, 4)
    await bot.ask("fork", session_id="origin", revision=3, new_session_id="f")
    await bot.append("f", "type-1", content="f 3")
    await bot.append("f", "type-0", content="f 4")
    await bot.ask("fork", session_id="f", revision=2, new_session_id="g")
    await bot.append("g", "type-0", content="g 4")
    await bot.ask("fork", session_id="g", new_session_id="h")
    await bot.ask("fork", session_id="f", revision=1, new_session_id="i")
    await bot.append("i", "type-1", content="i 3")
    assert await contents(bot, "h") == ["origin 1", "origin 2", "f 3", "g 4"]
    assert await contents(bot, "i") == ["origin 1", "origin 2", "i 3"]
    for limit in (1, 2, 3):
        assert await bot.sequences("h", limit=limit) == [1, 2, 3, 4]
        assert await bot.sequences("h", limit=limit, reverse=True) == [4, 3, 2, 1]
    assert await contents(bot, "h", type="type-1", limit=1) == ["origin 1", "f 3"]
    assert await contents(bot, "h", type="type-0", limit=1, reverse=True) == ["g 4", "origin 2"]
    assert await bot.sequences("h", after=1, before=4) == [2, 3]


async def test_time_reaches_into_the_origin(bot: Agent) -> None:
    await origin(bot, 4)
    at = [event["at"] for event in await bot.events("origin")]
    fork = await bot.ask("fork", session_id="origin", revision=4, new_session_id="f")
    assert await contents(bot, "f", until="2100-01-01T00:00:00Z") == ["origin 1", "origin 2", "origin 3"]
    assert await contents(bot, "f", since=fork["created_at"]) == []
    await bot.append("f", content="f 4")
    assert await contents(bot, "f", since=at[1]) == ["origin 2", "origin 3", "f 4"]
    assert await contents(bot, "f", until=at[2]) == ["origin 1", "origin 2"]
    assert await contents(bot, "f", since=at[3]) == ["f 4"]


async def test_an_empty_session_can_be_forked_and_a_closed_one_too(bot: Agent) -> None:
    await bot.create("empty")
    assert (await bot.ask("fork", session_id="empty", new_session_id="e"))["status"] == "created"
    assert (await bot.append("e"))["sequence"] == 1
    await origin(bot, 1)
    await bot.ask("terminate", session_id="origin")
    await bot.ask("archive", session_id="origin")
    fork = await bot.ask("fork", session_id="origin", new_session_id="f")
    assert (fork["status"], fork["terminated_at"], fork["archived_at"]) == ("active", None, None)
    assert (await bot.append("f"))["sequence"] == 2


async def test_the_fork_of_a_past_revision_has_its_state(bot: Agent) -> None:
    await origin(bot, 5)
    fork = await bot.ask("fork", session_id="origin", revision=2, new_session_id="f")
    assert fork["state"] == {"n": 1, "user:u": 5}
    assert (await bot.session("f", revision=1))["state"]["n"] == 1


async def test_what_cannot_be_forked_is_refused(bot: Agent) -> None:
    await origin(bot, 1)
    refused = await bot.refusal("fork", session_id="origin", revision=3)
    assert (refused.code, refused.context) == (40401, {"session_id": "origin", "revision": 3})
    await bot.create("there")
    refused = await bot.refusal("fork", session_id="origin", new_session_id="there")
    assert (refused.code, refused.context) == (40901, {"session_id": "there"})
    assert (await bot.refusal("fork", session_id="origin", new_session_id="origin")).code == 40901


async def test_the_same_request_again_answers_the_first_fork(bot: Agent) -> None:
    await origin(bot, 2)
    first = await bot.ask("fork", id="m1", session_id="origin")
    await bot.append(first["session_id"])
    await bot.append("origin")
    assert await bot.ask("fork", id="m1", session_id="origin") == {**first, "duplicate": True}
    await bot.ask("delete", session_id="origin")
    assert await bot.ask("fork", id="m1", session_id="origin") == {**first, "duplicate": True}
    assert (await bot.refusal("fork", session_id="origin")).code == 40401


async def test_a_fork_keeps_its_place_in_its_machine(bot: Agent) -> None:
    machine = {
        "initial": "a",
        "states": ["a", "b", "c"],
        "transitions": [{"from": "a", "event": "go", "to": "b"}, {"from": "b", "event": "go", "to": "c"}],
    }
    await bot.create("origin", machine=machine)
    await bot.append("origin", "go")
    await bot.append("origin", "go")
    fork = await bot.ask("fork", session_id="origin", revision=2, new_session_id="f")
    assert fork["machine"]["state"] == "b"
    await bot.append("f", "go")
    assert (await bot.session("f"))["machine"]["state"] == "c"
    assert (await bot.refusal("append", session_id="f", event={"type": "go"})).code == 40903
