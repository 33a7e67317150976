"""Statuses and their transitions."""

import pytest

from .hive import Agent, Body

pytestmark = pytest.mark.asyncio(loop_scope="session")

STATUSES = ("created", "active", "paused", "terminated", "archived")
ALLOWED = {
    "created": ["active", "terminated"],
    "active": ["paused", "terminated"],
    "paused": ["active", "terminated"],
    "terminated": ["archived"],
    "archived": [],
}
WAY = {
    "created": (),
    "active": ("active",),
    "paused": ("active", "paused"),
    "terminated": ("terminated",),
    "archived": ("terminated", "archived"),
}


@pytest.mark.parametrize("status", STATUSES)
async def test_what_the_table_does_not_have_is_refused_by_name(bot: Agent, status: str) -> None:
    for wanted in STATUSES:
        session_id = f"{status}-{wanted}"
        await bot.create(session_id)
        for step in WAY[status]:
            await bot.ask("set_status", session_id=session_id, status=step)
        before = await bot.session(session_id)
        if wanted in ALLOWED[status]:
            after = await bot.ask("set_status", session_id=session_id, status=wanted)
            assert (after["status"], after["revision"]) == (wanted, before["revision"] + 1)
            assert after == {**await bot.session(session_id), "duplicate": False}
        else:
            refused = await bot.refusal("set_status", session_id=session_id, status=wanted)
            assert (refused.code, refused.error["name"]) == (40903, "IllegalTransition")
            assert refused.context == {"status": status, "requested": wanted, "allowed": ALLOWED[status]}
            assert await bot.session(session_id) == before


async def test_the_first_event_makes_a_session_active(bot: Agent) -> None:
    await bot.create("s1")
    await bot.append("s1")
    assert (await bot.session("s1"))["status"] == "active"
    await bot.ask("set_status", session_id="s1", status="paused")
    await bot.append("s1")
    assert (await bot.session("s1"))["status"] == "paused"


async def test_termination_clears_temporary_state_and_closes_the_session(bot: Agent) -> None:
    await bot.create("s1", initial_state={"temp:a": 1, "temp:b": 2, "temporary": 3, "user:temp:c": 4})
    await bot.append("s1")
    ended = await bot.ask("terminate", session_id="s1")
    assert ended["state"] == {"temporary": 3, "user:temp:c": 4}
    assert ended["terminated_at"] == ended["updated_at"]
    assert ended["archived_at"] is None
    writes: tuple[tuple[str, Body], ...] = (
        ("append", {"event": {"type": "late"}}),
        ("state_set", {"key": "a", "value": 1}),
        ("state_set", {"key": "user:a", "value": 1}),
    )
    for operation, fields in writes:
        refused = await bot.refusal(operation, fields, session_id="s1")
        assert (refused.code, refused.context) == (40903, {"status": "terminated", "allowed": ["archived"]})
    assert await bot.sequences("s1") == [1]


async def test_archive_follows_termination_only(bot: Agent) -> None:
    await bot.create("s1")
    refused = await bot.refusal("archive", session_id="s1")
    assert (refused.code, refused.context["allowed"]) == (40903, ["active", "terminated"])
    await bot.ask("terminate", session_id="s1")
    archived = await bot.ask("archive", session_id="s1")
    assert (archived["status"], archived["archived_at"]) == ("archived", archived["updated_at"])
    assert (await bot.refusal("archive", session_id="s1")).context["allowed"] == []


async def test_the_same_request_again_answers_the_first_outcome(bot: Agent) -> None:
    await bot.create("s1", initial_state={"temp:a": 1})
    paused = await bot.ask("set_status", id="m1", session_id="s1", status="active")
    ended = await bot.ask("terminate", id="m2", session_id="s1")
    archived = await bot.ask("archive", id="m3", session_id="s1")
    assert await bot.ask("set_status", id="m1", session_id="s1", status="active") == {**paused, "duplicate": True}
    assert await bot.ask("terminate", id="m2", session_id="s1") == {**ended, "duplicate": True}
    assert await bot.ask("archive", id="m3", session_id="s1") == {**archived, "duplicate": True}
    assert (await bot.session("s1"))["revision"] == 4


@pytest.mark.parametrize("operation", ["terminate", "archive", "delete", "fork"])
async def test_a_session_that_is_not_there_is_not_found(bot: Agent, operation: str) -> None:
    refused = await bot.refusal(operation, session_id="nobody")
    assert (refused.code, refused.context) == (40401, {"session_id": "nobody"})


async def test_an_unknown_status_is_an_invalid_request(bot: Agent) -> None:
    await bot.create("s1")
    refused = await bot.refusal("set_status", session_id="s1", status="sleeping")
    assert (refused.code, refused.context["field"]) == (40001, "status")
