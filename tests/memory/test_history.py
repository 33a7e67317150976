"""A memory's versions, newest first: the operation of each, its changes, page by page."""

from typing import Any

import pytest

from .exact import exactly
from .hive import NAMESPACE, Agent, Body

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def history(bot: Agent, key: str = "k", **fields: Any) -> Body:
    return await exactly(bot, "history", namespace=NAMESPACE, key=key, **fields)


async def lived(bot: Agent) -> None:
    await bot.put("k", {"a": 1, "b": [1, 2]}, id=bot.id("1"))
    await bot.called("eve").patch("k", {"a": None, "c": "x"}, id=bot.id("2"))
    await bot.delete("k", id=bot.id("3"))
    await bot.restore("k", id=bot.id("4"))
    await bot.put("k", 5, id=bot.id("5"))


async def test_newest_first_with_what_made_each(bot: Agent) -> None:
    await lived(bot)
    lines = (await history(bot))["items"]
    assert [line["version"] for line in lines] == [5, 4, 3, 2, 1]
    assert [line["operation"] for line in lines] == ["put", "restore", "delete", "patch", "put"]
    assert [line["request_id"] for line in lines] == [bot.id(number) for number in "54321"]
    assert [line["updated_by"] for line in lines] == ["bot", "bot", "bot", "eve", "bot"]
    assert {(line["diff"], line["diff_omitted"]) for line in lines} == {(None, False)}
    for line in lines:
        memory = await bot.memory("k", version=line["version"], include_deleted=True)
        assert {name: line[name] for name in memory} == memory


async def test_each_version_with_its_differences_to_the_one_before(bot: Agent) -> None:
    await lived(bot)
    lines = (await history(bot, diff=True))["items"]
    patched = {"b": [1, 2], "c": "x"}
    assert [line["diff"] for line in lines] == [
        [{"path": "", "change": "changed", "before": patched, "after": 5}],
        [{"path": "", "change": "added", "before": None, "after": patched}],
        [{"path": "", "change": "removed", "before": patched, "after": None}],
        [
            {"path": "/a", "change": "removed", "before": 1, "after": None},
            {"path": "/c", "change": "added", "before": None, "after": "x"},
        ],
        [{"path": "", "change": "added", "before": None, "after": {"a": 1, "b": [1, 2]}}],
    ]


@pytest.mark.parametrize("limit", [1, 2, 4, 5, 6])
async def test_pages_fit_together(bot: Agent, limit: int) -> None:
    await lived(bot)
    whole = (await history(bot, diff=True))["items"]
    found: list[Body] = []
    cursor: str | None = None
    while True:
        page = await history(bot, diff=True, limit=limit, **({"cursor": cursor} if cursor else {}))
        assert len(page["items"]) == min(limit, 5 - len(found))
        found += page["items"]
        cursor = page["cursor"]
        if cursor is None:
            break
    assert found == whole


async def test_a_long_history_is_paged_whole(bot: Agent) -> None:
    for part in range(3):
        puts = [{"namespace": NAMESPACE, "key": "k", "value": number} for number in range(part * 400, part * 400 + 400)]
        await bot.ask("put_batch", puts=puts)
    for limit in (50, 1_000):
        assert [line["value"] for line in await bot.versions("k", limit=limit)] == list(range(1_200))


async def test_what_comes_between_two_pages_does_not_move_them(bot: Agent) -> None:
    await lived(bot)
    page = await history(bot, limit=2)
    await bot.put("k", 6)
    page = await history(bot, limit=2, cursor=page["cursor"])
    assert [line["version"] for line in page["items"]] == [3, 2]


async def test_large_versions_come_in_shorter_pages(bot: Agent) -> None:
    for number in range(4):
        await bot.put("k", f"{number}" + "x" * 300_000)
    page = await history(bot)
    assert 0 < len(page["items"]) < 4
    assert [line["value"][0] for line in await bot.versions("k")] == ["0", "1", "2", "3"]


async def test_differences_that_are_too_large_say_so(bot: Agent) -> None:
    await bot.put("k", ["x" * 250_000])
    await bot.put("k", ["y" * 250_000])
    await bot.put("k", ["y" * 250_000, 1])
    found = await bot.versions("k", diff=True)
    assert [line["diff_omitted"] for line in found] == [False, False, False]
    await bot.put("k", ["z" * 400_000])
    newest = (await history(bot, diff=True))["items"][0]
    assert (newest["diff"], newest["diff_omitted"]) == (None, True)


async def test_what_was_never_there_has_no_history(bot: Agent) -> None:
    refused = await bot.refusal("history", namespace=NAMESPACE, key="k")
    assert (refused.code, refused.context) == (40401, {"namespace": NAMESPACE, "key": "k"})


async def test_a_deleted_memory_has_one(bot: Agent) -> None:
    await bot.put("k", 1)
    await bot.delete("k")
    assert [line["version"] for line in (await history(bot))["items"]] == [2, 1]


async def test_a_cursor_belongs_to_its_memory(bot: Agent) -> None:
    await lived(bot)
    await bot.put("other", 1)
    await bot.put("other", 2)
    cursor = (await history(bot, limit=1))["cursor"]
    listed = (await bot.ask("list", prefix=NAMESPACE, limit=1))["cursor"]
    for key, wrong, diff in (("other", cursor, False), ("k", cursor, True), ("k", listed, False), ("k", "AAAA", False)):
        refused = await bot.refusal("history", namespace=NAMESPACE, key=key, cursor=wrong, diff=diff)
        assert (refused.code, refused.context["field"]) == (40001, "cursor")
