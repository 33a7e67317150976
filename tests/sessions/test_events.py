"""Events are paged in either direction, by type, author and time."""

import base64

import orjson
import pytest

from .hive import Agent

pytestmark = pytest.mark.asyncio(loop_scope="session")

TYPES = ("message", "tool", "note")
AUTHORS = ("alice", "bob")
COUNT = 23


async def filled(bot: Agent) -> Agent:
    await bot.create("s1")
    appends = [
        {"session_id": "s1", "event": {"type": TYPES[n % 3], "author": AUTHORS[n % 2], "content": n}}
        for n in range(COUNT)
    ]
    await bot.ask("append_batch", appends=appends)
    return bot


async def test_pages_follow_one_another_in_both_directions(bot: Agent) -> None:
    await filled(bot)
    everything = list(range(1, COUNT + 1))
    for limit in (1, 7, 22, 23, 24):
        assert await bot.sequences("s1", limit=limit) == everything
        assert await bot.sequences("s1", limit=limit, reverse=True) == everything[::-1]
    page = await bot.ask("events", session_id="s1", limit=COUNT)
    assert page["cursor"] is None


async def test_fifty_come_where_no_limit_is_named(bot: Agent) -> None:
    await bot.create("s1")
    await bot.ask("append_batch", appends=[{"session_id": "s1", "event": {"type": "n"}}] * 51)
    assert len((await bot.ask("events", session_id="s1"))["items"]) == 50


async def test_bounds_are_exclusive(bot: Agent) -> None:
    await filled(bot)
    assert await bot.sequences("s1", after=20) == [21, 22, 23]
    assert await bot.sequences("s1", before=4, limit=2) == [1, 2, 3]
    assert await bot.sequences("s1", after=3, before=9, reverse=True, limit=2) == [8, 7, 6, 5, 4]
    assert await bot.sequences("s1", after=0, before=1) == []
    assert await bot.sequences("s1", after=5, before=6) == []
    assert await bot.sequences("s1", after=10**15) == []
    assert await bot.sequences("s1", before=2**63 - 1, after=21) == [22, 23]


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("limit", [2, 50])
async def test_events_are_filtered_by_type_and_author(bot: Agent, reverse: bool, limit: int) -> None:
    await filled(bot)
    for type in (*TYPES, None, "nothing"):
        for author in (*AUTHORS, None, "nobody"):
            wanted = {name: value for name, value in (("type", type), ("author", author)) if value is not None}
            expected = [
                n + 1
                for n in range(COUNT)
                if (type is None or TYPES[n % 3] == type) and (author is None or AUTHORS[n % 2] == author)
            ]
            found = await bot.sequences("s1", limit=limit, reverse=reverse, **wanted)
            assert found == (expected[::-1] if reverse else expected), wanted


async def test_events_are_filtered_by_time(bot: Agent) -> None:
    await bot.create("s1")
    for n in range(6):
        await bot.append("s1", "even" if n % 2 == 0 else "odd")
        if n == 2:
            await bot.ask("state_set", session_id="s1", key="k", value=n)
    at = [event["at"] for event in await bot.events("s1")]
    assert await bot.sequences("s1", since=at[2]) == [3, 4, 5, 6]
    assert await bot.sequences("s1", until=at[2]) == [1, 2]
    assert await bot.sequences("s1", since=at[1], until=at[4], limit=2) == [2, 3, 4]
    assert await bot.sequences("s1", since=at[1], until=at[4], limit=2, reverse=True) == [4, 3, 2]
    assert await bot.sequences("s1", since=at[1], until=at[4], type="even", limit=1) == [3]
    assert await bot.sequences("s1", since=at[1], after=3, until=at[5], before=5) == [4]
    assert await bot.sequences("s1", since="2100-01-01T00:00:00Z") == []
    assert await bot.sequences("s1", until="1999-01-01T00:00:00+02:00") == []
    assert await bot.sequences("s1", until="2100-01-01T00:00:00Z") == [1, 2, 3, 4, 5, 6]
    refused = await bot.refusal("events", session_id="s1", since="2100-01-01T00:00:00")
    assert (refused.code, refused.context["field"]) == (40001, "since")


async def test_time_is_right_where_much_else_happened_between_events(bot: Agent) -> None:
    await bot.create("s1")
    await bot.append("s1")
    for n in range(130):
        await bot.ask("state_set", session_id="s1", key="k", value=n)
    between = (await bot.session("s1"))["updated_at"]
    await bot.append("s1")
    assert await bot.sequences("s1", until=between) == [1]
    assert await bot.sequences("s1", since=between) == [2]


async def test_a_large_page_is_cut_and_goes_on(bot: Agent) -> None:
    await bot.create("s1")
    large = "x" * 200_000
    for n in range(6):
        await bot.append("s1", content=f"{n}{large}")
    first = await bot.ask("events", session_id="s1")
    assert [event["sequence"] for event in first["items"]] == [1, 2, 3]
    assert first["cursor"] is not None
    assert await bot.sequences("s1") == [1, 2, 3, 4, 5, 6]
    assert await bot.sequences("s1", reverse=True) == [6, 5, 4, 3, 2, 1]
    newest = await bot.ask("get", session_id="s1", events=6)
    assert [event["sequence"] for event in newest["events"]] == [4, 5, 6]
    assert newest["cut"]
    older = await bot.ask("events", session_id="s1", reverse=True, cursor=newest["cursor"])
    assert [event["sequence"] for event in older["items"]] == [3, 2, 1]


async def test_the_newest_events_come_oldest_first(bot: Agent) -> None:
    await filled(bot)
    found = await bot.ask("get", session_id="s1", events=3)
    assert [event["sequence"] for event in found["events"]] == [21, 22, 23]
    assert (found["cut"], found["cursor"] is None) == (False, False)
    everything = await bot.ask("get", session_id="s1", events=50)
    assert (len(everything["events"]), everything["cut"], everything["cursor"]) == (23, False, None)
    assert (await bot.ask("get", session_id="s1"))["events"] == []


def forged(*parts: object) -> str:
    return base64.urlsafe_b64encode(orjson.dumps(parts)).rstrip(b"=").decode()


@pytest.mark.parametrize(
    "cursor",
    [
        "!",
        "ü",
        "bm90IGpzb24",
        forged("events", False),
        forged("events", False, "1"),
        forged("events", True, 5),
        forged("creation", 5, "s1"),
        base64.urlsafe_b64encode(b'{"a":1}').decode(),
    ],
)
async def test_a_cursor_that_is_none_of_this_list_is_refused(bot: Agent, cursor: str) -> None:
    await filled(bot)
    refused = await bot.refusal("events", session_id="s1", cursor=cursor)
    assert (refused.code, refused.context["field"]) == (40001, "cursor")


async def test_a_forged_position_does_no_harm(bot: Agent) -> None:
    await filled(bot)
    for position in (-5, 0, 2**53, 2**63 - 1):
        page = await bot.ask("events", session_id="s1", cursor=forged("events", False, position), limit=1)
        assert [event["sequence"] for event in page["items"]] == ([1] if position < 1 else [])


async def test_a_cursor_of_a_session_list_is_refused(bot: Agent) -> None:
    await filled(bot)
    await bot.create("s2")
    cursor = (await bot.ask("list", limit=1))["cursor"]
    refused = await bot.refusal("events", session_id="s1", cursor=cursor)
    assert refused.context["field"] == "cursor"


async def test_events_of_no_session_are_not_found(bot: Agent) -> None:
    refused = await bot.refusal("events", session_id="nobody")
    assert (refused.code, refused.context) == (40401, {"session_id": "nobody"})
