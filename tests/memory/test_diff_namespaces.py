"""The differences of a namespace between two moments."""

from typing import Any

import pytest

from .exact import exactly
from .hive import NAMESPACE, Agent, Body
from .test_snapshot import put_many

pytestmark = pytest.mark.asyncio(loop_scope="session")

ALWAYS = "1970-01-01T00:00:00.000000Z"
NOW = "2999-01-01T00:00:00.000000Z"


async def diff(bot: Agent, start: str = ALWAYS, end: str = NOW, **fields: Any) -> list[Body]:
    return await bot.pages("diff", **{"namespace": NAMESPACE, "from": start, "to": end, **fields})


def words(changes: list[Body]) -> list[tuple[str, str]]:
    return [(change["key"], change["change"]) for change in changes]


async def at(bot: Agent, key: str) -> str:
    moment: str = (await bot.memory(key, include_deleted=True))["updated_at"]
    return moment


async def test_added_changed_and_removed(bot: Agent) -> None:
    await bot.put("a", {"n": 1, "same": True})
    await bot.put("b", 1)
    await bot.put("same", 1)
    start = await at(bot, "same")
    await bot.put("a", {"n": 2, "same": True})
    await bot.delete("b")
    await bot.put("c", 3)
    end = await at(bot, "c")
    await bot.put("a", {"n": 3, "same": True})
    answer = await exactly(bot, "diff", {"namespace": NAMESPACE, "from": start, "to": end})
    assert words(answer["items"]) == [("a", "changed"), ("b", "removed"), ("c", "added")]
    changed, removed, added = answer["items"]
    assert changed["diff"] == [{"path": "/n", "change": "changed", "before": 1, "after": 2}]
    assert changed["before"] == await bot.memory("a", version=1)
    assert changed["after"] == await bot.memory("a", version=2)
    assert (removed["before"], removed["after"]) == (await bot.memory("b", version=1), None)
    assert (added["before"], added["after"], added["diff"]) == (None, await bot.memory("c"), [])


async def test_what_comes_and_goes_between_is_no_change(bot: Agent) -> None:
    await bot.put("a", 1)
    start = await at(bot, "a")
    await bot.put("a", 2)
    await bot.put("a", 1)
    await bot.put("b", 1)
    await bot.delete("b")
    assert await diff(bot, start) == []
    assert await diff(bot, start, start) == []
    assert words(await diff(bot)) == [("a", "added")]


async def test_a_change_of_anything_but_the_value_has_no_differences(bot: Agent) -> None:
    await bot.put("a", 1)
    start = await at(bot, "a")
    await bot.put("a", 1, importance=0.5)
    (change,) = await diff(bot, start)
    assert (change["change"], change["diff"]) == ("changed", [])
    assert (change["before"]["importance"], change["after"]["importance"]) == (None, 0.5)


async def test_the_second_moment_holds_for_all_pages(bot: Agent) -> None:
    await put_many(bot, 10)
    asked: Body = {"namespace": NAMESPACE, "from": ALWAYS, "to": NOW, "limit": 4}
    page = await bot.ask("diff", asked)
    await bot.put("k00009", "now")
    await bot.put("later", 1)
    await bot.delete("k00008")
    found = page["items"]
    while page["cursor"] is not None:
        page = await bot.ask("diff", asked, cursor=page["cursor"])
        found += page["items"]
    assert words(found) == [(f"k{number:05}", "added") for number in range(10)]
    assert {change["after"]["value"] for change in found} == {None}


async def test_a_few_changes_among_many(bot: Agent) -> None:
    keys = await put_many(bot, 5_000)
    start = await at(bot, keys[-1])
    for key in (keys[7], keys[2_500], keys[4_999]):
        await bot.put(key, "changed")
    assert [change["key"] for change in await diff(bot, start, limit=2)] == [keys[7], keys[2_500], keys[4_999]]


async def test_many_changes(bot: Agent) -> None:
    keys = await put_many(bot, 2_500)
    start = await at(bot, keys[-1])
    await put_many(bot, 2_500, "changed")
    assert [change["key"] for change in await diff(bot, start, limit=1_000)] == keys
    assert await diff(bot, ALWAYS, "1971-01-01T00:00:00Z") == []


async def test_large_changes_come_in_shorter_pages_or_without_their_values(bot: Agent) -> None:
    for key in ("a", "b", "c"):
        await bot.put(key, ["x" * 200_000])
    start = await at(bot, "c")
    for key in ("a", "b"):
        await bot.put(key, ["x" * 200_000, 1])
    await bot.put("c", ["y" * 300_000])
    found = await diff(bot, start)
    assert [(change["key"], change["values_omitted"]) for change in found] == [("a", False), ("b", False), ("c", True)]
    assert found[0]["diff"] == [{"path": "/1", "change": "added", "before": None, "after": 1}]
    assert (found[2]["before"]["value"], found[2]["after"]["value"], found[2]["diff"]) == (None, None, [])
    assert (found[2]["before"]["version"], found[2]["after"]["version"]) == (1, 2)


async def test_moments_in_the_wrong_order_are_refused(bot: Agent) -> None:
    refused = await bot.refusal("diff", {"namespace": NAMESPACE, "from": NOW, "to": ALWAYS})
    assert (refused.code, refused.context["field"]) == (40001, "from")
    for body in ({"from": ALWAYS}, {"to": ALWAYS}, {"from": ALWAYS, "to": "now"}):
        assert (await bot.refusal("diff", {"namespace": NAMESPACE, **body})).code == 40001


async def test_a_cursor_belongs_to_its_moments(bot: Agent) -> None:
    await put_many(bot, 3)
    asked: Body = {"namespace": NAMESPACE, "from": ALWAYS, "to": NOW, "limit": 1}
    cursor = (await bot.ask("diff", asked))["cursor"]
    for other in ({"from": "1970-01-02T00:00:00Z"}, {"to": "2998-01-01T00:00:00Z"}, {"namespace": "user:bob"}):
        refused = await bot.refusal("diff", {**asked, **other}, cursor=cursor)
        assert (refused.code, refused.context["field"]) == (40001, "cursor")
