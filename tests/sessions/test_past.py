"""Sessions are read as of a revision or a moment, shared scopes included."""

import pytest

from .hive import Agent, Body

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_a_session_is_read_as_of_a_revision(bot: Agent) -> None:
    await bot.create("s1", initial_state={"n": 0})
    heads = [await bot.session("s1")]
    for n in range(1, 4):
        await bot.append("s1", state_delta={"n": n, f"k{n}": n})
        heads.append(await bot.session("s1"))
    await bot.ask("terminate", session_id="s1")
    heads.append(await bot.session("s1"))
    for head in heads:
        assert await bot.session("s1", revision=head["revision"]) == head
    refused = await bot.refusal("get", session_id="s1", revision=6)
    assert (refused.code, refused.context) == (40401, {"session_id": "s1", "revision": 6})


async def test_a_session_is_read_as_of_a_moment(bot: Agent) -> None:
    await bot.create("other")
    before = (await bot.session("other"))["created_at"]
    await bot.create("s1")
    heads = [await bot.session("s1")]
    for n in range(3):
        await bot.append("s1", content=n, state_delta={"n": n})
        heads.append(await bot.session("s1"))
    for head in heads:
        assert await bot.session("s1", at=head["updated_at"]) == head
    assert await bot.session("s1", at="2100-01-01T00:00:00+05:00") == heads[-1]
    refused = await bot.refusal("get", session_id="s1", at=before)
    assert (refused.code, refused.context) == (40401, {"session_id": "s1"})
    page = await bot.ask("get", session_id="s1", at=heads[2]["updated_at"], events=10)
    assert [event["content"] for event in page["events"]] == [0, 1]


async def test_shared_scopes_are_as_they_were(bot: Agent) -> None:
    await bot.create("s1", project_id="p", initial_state={"user:x": 1})
    first = await bot.session("s1")
    await bot.append("s1", state_delta={"user:x": 2, "app:y": 1, "project:z": 1})
    second = await bot.session("s1")
    await bot.create("s2", initial_state={"user:x": None, "app:y": 5})
    await bot.append("s1")
    third = await bot.session("s1")
    assert second["state"] == {"user:x": 2, "app:y": 1, "project:z": 1}
    assert third["state"] == {"app:y": 5, "project:z": 1}
    for head in (first, second, third):
        assert await bot.session("s1", revision=head["revision"]) == head
        assert await bot.session("s1", at=head["updated_at"]) == head


async def test_a_write_that_is_repeated_hears_of_the_state_it_made(bot: Agent) -> None:
    """This holds even if one commit of many sessions changes a scope many times in the same microsecond."""
    for n in range(20):
        await bot.create(f"s{n}", user_id="one")
    appends = [{"session_id": f"s{n}", "event": {"type": "n"}, "state_delta": {"user:n": n}} for n in range(20)]
    await bot.ask("append_batch", appends=appends)
    for n in range(20):
        assert (await bot.session(f"s{n}", revision=2))["state"] == {"user:n": n}


async def test_the_past_is_right_far_behind_many_snapshots(bot: Agent) -> None:
    await bot.create("s1", initial_state={"fixed": 1})
    appends = [
        {"session_id": "s1", "event": {"type": "n"}, "state_delta": {"n": n, f"k{n % 7}": n}} for n in range(330)
    ]
    await bot.ask("append_batch", appends=appends)
    expected: Body = {"fixed": 1}
    for n in range(330):
        expected |= {"n": n, f"k{n % 7}": n}
        if n in (0, 97, 98, 99, 100, 198, 199, 200, 329):
            head = await bot.session("s1", revision=n + 2)
            assert (head["state"], head["event_count"]) == (expected, n + 1)
    assert await bot.sequences("s1", limit=1_000) == list(range(1, 331))


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"revision": 0}, "revision"),
        ({"revision": "1"}, "revision"),
        ({"at": "yesterday"}, "at"),
        ({"at": 5}, "at"),
        ({"events": -1}, "events"),
        ({"events": 1_001}, "events"),
    ],
)
async def test_what_names_no_time_is_refused(bot: Agent, fields: Body, field: str) -> None:
    await bot.create("s1")
    refused = await bot.refusal("get", session_id="s1", **fields)
    assert (refused.code, refused.context["field"]) == (40001, field)
