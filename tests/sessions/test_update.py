"""Updates of sessions, and events that occurred at another time, over the bus."""

import pytest

from .hive import Agent

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_an_update_is_one_revision_told_with_what_was_sent(bot: Agent) -> None:
    await bot.create("s1", metadata={"title": "trip", "draft": True})
    updated = await bot.ask("update", session_id="s1", metadata={"draft": None}, project_id="p")
    assert (updated["metadata"], updated["project_id"], updated["revision"]) == ({"title": "trip"}, "p", 2)
    assert updated == {**await bot.session("s1"), "duplicate": False}
    await bot.ask("update", session_id="s1", project_id="q", expect_revision=2)
    told = [change.body for change in await bot.feed() if change.what == "session.updated"]
    assert [(body["version"], body["value"]) for body in told] == [
        (2, {"metadata": {"draft": None}, "project_id": "p"}),
        (3, {"project_id": "q"}),
    ]
    [found] = (await bot.ask("list", project_id="q"))["items"]
    assert found["session_id"] == "s1"
    assert (await bot.session("s1", revision=2))["project_id"] == "p"


async def test_an_update_may_be_a_command(bot: Agent) -> None:
    await bot.create("s1")
    await bot.command("update", "s1", {"session_id": "s1", "metadata": {"a": 1}}, id=bot.id("u"))
    await bot.feed_of(2)
    assert (await bot.session("s1"))["metadata"] == {"a": 1}


async def test_an_update_of_nothing_or_at_another_revision_is_refused(bot: Agent) -> None:
    await bot.create("s1")
    nothing = await bot.refusal("update", session_id="s1")
    assert (nothing.code, "metadata and project_id" in nothing.error["detail"]) == (40001, True)
    stale = await bot.refusal("update", session_id="s1", project_id="p", expect_revision=7)
    assert (stale.code, stale.context) == (40902, {"expected": 7, "actual": 1})
    unknown = await bot.refusal("update", session_id="nobody", project_id="p")
    assert (unknown.code, unknown.context) == (40401, {"session_id": "nobody"})


async def test_an_event_keeps_the_time_at_which_it_occurred(bot: Agent) -> None:
    await bot.create("s1")
    await bot.append("s1", occurred_at="2023-05-08T15:56:00+02:00")
    appends = [{"session_id": "s1", "event": {"type": "note", "occurred_at": "2999-01-01T00:00:00Z"}}]
    await bot.ask("append_batch", appends=appends)
    times = ["2023-05-08T13:56:00.000000Z", "2999-01-01T00:00:00.000000Z"]
    assert [event["occurred_at"] for event in await bot.events("s1")] == times
    told = [change.body["value"]["occurred_at"] for change in await bot.feed() if change.what == "event.appended"]
    assert told == times
    refused = await bot.refusal("append", session_id="s1", event={"type": "note", "occurred_at": "yesterday"})
    assert (refused.code, refused.context["field"]) == (40001, "event.occurred_at")
