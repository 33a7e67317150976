"""Exported lines can be imported, any number of times."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from hivemem_contracts.identifiers import format_time
from hivemem_contracts.memory.requests import ImportedMemory

from .exact import exactly
from .hive import NAMESPACE, Agent, Body, eventually, source
from .test_snapshot import put_many

pytestmark = pytest.mark.asyncio(loop_scope="session")

FULL: Body = {
    "memory_type": "procedural",
    "metadata": {"text": "t"},
    "importance": 0.5,
    "valid_from": "2020-01-01T00:00:00.000000Z",
    "valid_to": "2999-01-01T00:00:00.000000Z",
    "expires_at": "2999-01-01T00:00:00.000000Z",
    "source": source(session_id="s"),
    "index": ["a text", "another"],
}
PAST: Body = {
    "namespace": "user:far",
    "key": "away",
    "version": 7,
    "created_by": "ann",
    "created_at": "2020-01-01T00:00:00.000000Z",
    "updated_by": "ben",
    "updated_at": "2021-01-01T00:00:00.000000Z",
}


def line(key: str = "k", value: Any = 1, **fields: Any) -> Body:
    return {"namespace": NAMESPACE, "key": key, "value": value, **fields}


async def bring(bot: Agent, *items: Body, id: str | None = None, **fields: Any) -> list[Body]:
    answer = await exactly(bot, "import", {"items": list(items), **fields}, id=id)
    results: list[Body] = answer["results"]
    return results


async def outcomes(bot: Agent, *items: Body, **fields: Any) -> list[tuple[str, int]]:
    return [(result["outcome"], result["version"]) for result in await bring(bot, *items, **fields)]


async def test_a_line_says_all_that_a_memory_says_and_where_it_comes_from(bot: Agent) -> None:
    await bot.put("k", 1)
    await bot.called("eve").put("k", {"v": [1]}, **FULL)
    await bot.ask("put", namespace=NAMESPACE + ":x", key="l", value=2)
    original = await bot.memory("k")
    answer = await exactly(bot, "export", prefix=NAMESPACE)
    names = ("namespace", "key", "version", "created_by", "created_at", "updated_by", "updated_at")
    assert answer["items"][0] == {
        "namespace": NAMESPACE,
        "key": "k",
        "value": {"v": [1]},
        **FULL,
        "copied_from": {name: original[name] for name in names},
    }
    assert (answer["items"][1]["namespace"], answer["items"][1]["key"]) == (NAMESPACE + ":x", "l")
    assert set(answer["items"][1]) == set(ImportedMemory.model_fields)
    assert answer["cursor"] is None


async def test_an_export_is_of_one_moment_on_all_pages(bot: Agent) -> None:
    for key in ("a", "b", "c"):
        await bot.put(key, "then")
    at = (await bot.memory("c"))["updated_at"]
    page = await exactly(bot, "export", prefix=NAMESPACE, limit=2)
    await bot.put("c", "now")
    await bot.put("d", "now")
    rest = await exactly(bot, "export", prefix=NAMESPACE, limit=2, cursor=page["cursor"])
    assert [(item["key"], item["value"]) for item in page["items"] + rest["items"]] == [
        (key, "then") for key in ("a", "b", "c")
    ]
    assert rest["as_of"] == page["as_of"]
    past = await bot.pages("export", prefix=NAMESPACE, as_of=at)
    assert past == page["items"] + rest["items"]


async def test_deleted_memories_are_not_exported(bot: Agent) -> None:
    await bot.put("k", 1)
    await bot.delete("k")
    assert await bot.pages("export", prefix=NAMESPACE) == []


async def test_an_export_is_put_on_record_once(bot: Agent) -> None:
    await put_many(bot, 5)
    await bot.called("eve").pages("export", prefix="user", limit=2)

    async def recorded() -> bool:
        links = await bot.pages("audit", operation="export")
        return [(link["actor"], link["operation"]) for link in links] == [("eve", "export")]

    await eventually(recorded, "the chain has it")


async def test_a_cursor_belongs_to_its_export(bot: Agent) -> None:
    await put_many(bot, 3)
    cursor = (await bot.ask("export", prefix=NAMESPACE, limit=1))["cursor"]
    wrong: list[Body] = [{"prefix": "user"}, {"prefix": NAMESPACE, "as_of": "2020-01-01T00:00:00Z"}]
    for body in wrong:
        refused = await bot.refusal("export", body, cursor=cursor)
        assert (refused.code, refused.context["field"]) == (40001, "cursor")


async def test_an_imported_memory_says_what_its_line_says(bot: Agent) -> None:
    (result,) = await bring(bot.called("eve"), line(value={"v": 1}, **FULL, copied_from=PAST))
    assert result == {"namespace": NAMESPACE, "key": "k", "version": 1, "outcome": "created", "error": None}
    found = await bot.memory("k")
    assert {name: found[name] for name in FULL} == FULL
    assert (found["value"], found["copied_from"]) == ({"v": 1}, PAST)
    assert (found["created_by"], found["updated_by"]) == ("eve", "eve")
    (version,) = await bot.versions("k")
    assert version["operation"] == "import"


async def test_what_says_the_same_stays_as_it_is(bot: Agent) -> None:
    items = [line("a", 1, **FULL), line("b", {"y": 1, "x": 2})]
    assert await outcomes(bot, *items) == [("created", 1), ("created", 1)]
    assert await outcomes(bot, *items) == [("unchanged", 1), ("unchanged", 1)]
    assert await outcomes(bot, line("b", {"x": 2, "y": 1}), existing="keep") == [("unchanged", 1)]
    assert len(await bot.versions("a")) == 1


async def test_what_says_something_else_is_updated_or_kept(bot: Agent) -> None:
    await bot.called("eve").put("k", 1, metadata={"m": 1})
    assert await outcomes(bot, line(value=2), existing="keep") == [("kept", 1)]
    assert (await bot.memory("k"))["value"] == 1
    assert await outcomes(bot, line(value=2, copied_from=PAST)) == [("updated", 2)]
    found = await bot.memory("k")
    assert (found["value"], found["metadata"], found["copied_from"]) == (2, {}, PAST)
    assert (found["created_by"], found["updated_by"]) == ("eve", "bot")
    assert await outcomes(bot, line(value=3)) == [("updated", 3)]
    assert (await bot.memory("k"))["copied_from"] == PAST


async def test_what_is_deleted_is_created_again(bot: Agent) -> None:
    await bot.called("eve").put("k", 1)
    await bot.delete("k")
    assert await outcomes(bot, line(), existing="keep") == [("created", 3)]
    assert (await bot.memory("k"))["created_by"] == "bot"


async def test_lines_of_one_key_follow_one_another(bot: Agent) -> None:
    items = [line(value=1), line(value=1), line(value=2), line("other"), line(value=1)]
    assert await outcomes(bot, *items) == [
        ("created", 1),
        ("unchanged", 1),
        ("updated", 2),
        ("created", 1),
        ("updated", 3),
    ]
    versions = await bot.versions("k")
    assert [version["value"] for version in versions] == [1, 2, 1]
    assert len({version["created_at"] for version in versions}) == 1


async def test_a_line_that_cannot_be_is_refused_alone(bot: Agent) -> None:
    results = await bring(
        bot,
        line("a"),
        line("late", expires_at="2020-01-01T00:00:00Z"),
        line("never", valid_from="2021-01-01T00:00:00Z", valid_to="2020-01-01T00:00:00Z"),
        line("🙂" * 256) | {"namespace": "user:" + "🙂" * 80},
        line("b"),
    )
    assert [result["outcome"] for result in results] == ["created", "refused", "refused", "refused", "created"]
    errors = [result["error"] for result in results if result["error"] is not None]
    assert [(error["code"], error["context"]["field"]) for error in errors] == [
        (40001, "expires_at"),
        (40001, "valid_to"),
        (41301, "subject"),
    ]
    assert await bot.keys() == ["a", "b"]


async def test_a_repeated_request_answers_the_same(bot: Agent) -> None:
    items = [line("a"), line("b", expires_at="2020-01-01T00:00:00Z")]
    first = await bring(bot, *items, id=bot.id("i"))
    await bot.put("a", "since then")
    assert await bring(bot, *items, id=bot.id("i")) == first
    assert (await bot.memory("a"))["value"] == "since then"


async def test_the_same_lines_many_times_at_once_end_the_same(bot: Agent) -> None:
    items = [line(f"k{number}", number) for number in range(200)]
    await asyncio.gather(*[bring(bot, *items) for _ in range(5)])
    found = await bot.pages("list", prefix=NAMESPACE, limit=1_000)
    assert [(memory["version"]) for memory in found] == [1] * 200


async def test_there_and_back_again(bot: Agent) -> None:
    """A namespace is exported, its lines are renamed, imported, exported and imported once more."""
    keys = await put_many(bot, 300, {"v": 1})
    await bot.put(keys[3], {"v": 2}, **FULL)
    lines = await bot.pages("export", prefix=NAMESPACE, limit=100)
    moved = [item | {"namespace": "project:copy"} for item in lines]
    assert {result["outcome"] for result in await bring(bot, *moved)} == {"created"}
    copies = await bot.pages("list", prefix="project:copy", limit=1_000)
    originals = await bot.pages("list", prefix=NAMESPACE, limit=1_000)
    assert [copy["digest"] for copy in copies] == [original["digest"] for original in originals]
    assert [copy["copied_from"] for copy in copies] == [item["copied_from"] for item in lines]
    assert {result["outcome"] for result in await bring(bot, *lines)} == {"unchanged"}
    assert {result["outcome"] for result in await bring(bot, *moved)} == {"unchanged"}
    assert [memory["version"] for memory in await bot.pages("list", prefix=NAMESPACE, limit=1_000)] == [
        2 if key == keys[3] else 1 for key in keys
    ]


async def test_a_writer_may_have_any_name_of_an_agent(bot: Agent) -> None:
    writer = Agent(bot.client, bot.worker, bot.tenant, " \u00e4\n" + "x" * 800)
    await writer.put("k", 1)
    lines = await bot.pages("export", prefix=NAMESPACE)
    copy = await bring(bot, *(item | {"namespace": "project:copy"} for item in lines))
    assert [result["outcome"] for result in copy] == ["created"]
    found = await bot.pages("list", prefix=NAMESPACE, created_by=writer.name)
    assert [memory["updated_by"] for memory in found] == [writer.name]
    assert len(await bot.pages("audit", actor=writer.name)) == 1


async def test_large_memories_are_exported_in_shorter_pages(bot: Agent) -> None:
    for number in range(4):
        await bot.put(f"k{number}", f"{number}" + "x" * 400_000)
    lines = await bot.pages("export", prefix=NAMESPACE)
    assert [item["value"][0] for item in lines] == ["0", "1", "2", "3"]
    for item in lines:
        assert await outcomes(bot, item) == [("unchanged", 1)]


async def test_an_import_can_be_published(bot: Agent) -> None:
    await bot.command("import", "lines", {"items": [line("a"), line("b")]}, id=bot.id("i"))
    told = await bot.feed_of(2)
    assert [(change.body["key"], change.body["operation"]) for change in told] == [("a", "put"), ("b", "put")]


async def test_a_published_line_that_cannot_be_is_a_dead_letter_and_the_others_are_there(bot: Agent) -> None:
    late = format_time(datetime.now(UTC) - timedelta(days=1))
    await bot.command("import", "lines", {"items": [line("a"), line("b", expires_at=late)]}, id=bot.id("i"))
    (letter,) = await bot.letters(1)
    assert letter.headers["Nats-Service-Error-Code"] == "40001"
    assert await bot.keys() == ["a"]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"items": []}, "items"),
        ({"items": [{"namespace": NAMESPACE, "key": "k"}]}, "items.0.value"),
        ({"items": [line(version=3)]}, "items.0.version"),
        ({"items": [line()], "existing": "overwrite"}, "existing"),
        ({"items": [line(copied_from={"namespace": NAMESPACE})]}, "items.0.copied_from.key"),
    ],
)
async def test_what_is_no_line_is_refused_by_name(bot: Agent, body: Body, field: str) -> None:
    refused = await bot.refusal("import", body)
    assert (refused.code, refused.context["field"]) == (40001, field)
