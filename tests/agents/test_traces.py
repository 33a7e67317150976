"""Traces: all of an agent as lines, and the same agent again from them."""

from typing import Any

import pytest

from .conftest import Bot, Fleet

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def trace(bot: Bot, **fields: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    cursor: str | None = None
    while True:
        page = await bot.ask("trace", {"cursor": cursor} if cursor else {}, agent_id="alpha", **fields)
        found += page["items"]
        cursor = page["cursor"]
        if cursor is None:
            return found


async def lived(bot: Bot) -> None:
    """Let an agent live: three cycles, one of them open, and records in between."""
    await bot.ask("register", agent_id="alpha", name="Alpha", directives={"be": "kind"})
    await bot.ask("register", agent_id="alpha", overrides={"model": "m"})
    await bot.cycle(output={"n": 1})
    await bot.record("seen", number=1, metadata={"place": "Naxos"})
    await bot.ask("cycle_begin", agent_id="alpha")
    await bot.ask("abandon", agent_id="alpha", number=2, reason="no tool")
    await bot.record("learnt", "reflection", importance=0.4)
    await bot.ask("cycle_begin", agent_id="alpha", session_id="s1")
    await bot.ask("propose", agent_id="alpha", number=3, tool={"name": "t", "arguments": {}})


@pytest.mark.parametrize("limit", [1, 2, 50])
async def test_a_trace_has_everything_in_order(bot: Bot, limit: int) -> None:
    await lived(bot)
    lines = await trace(bot, limit=limit)
    assert [(line["type"], line.get("number"), line.get("content")) for line in lines] == [
        ("agent", None, None),
        ("cycle", 1, None),
        ("record", 1, "seen"),
        ("cycle", 2, None),
        ("record", None, "learnt"),
        ("cycle", 3, None),
    ]
    assert await trace(bot, limit=limit, after=2) == lines[4:]


async def test_an_imported_agent_is_the_same_and_goes_on(fleet: Fleet, bot: Bot) -> None:
    await lived(bot)
    lines = await trace(bot)
    twin = fleet.bot()
    await twin.ask("trace_import", items=lines)
    assert await trace(twin) == lines
    for operation in ("get", "resume", "cycles"):
        assert await twin.ask(operation, agent_id="alpha") == await bot.ask(operation, agent_id="alpha")
    assert (await twin.ask("trace_import", items=lines))["lines"] == len(lines)
    assert await trace(twin) == lines
    await twin.ask("complete", agent_id="alpha", number=3, outcome="success")
    assert (await twin.ask("cycle_begin", agent_id="alpha"))["number"] == 4


async def test_a_line_that_differs_is_refused_by_its_place(fleet: Fleet, bot: Bot) -> None:
    await lived(bot)
    lines = await trace(bot)
    twin = fleet.bot()
    await twin.ask("trace_import", items=lines)
    for place, change in ((0, {"version": 9}), (1, {"session_id": "other"}), (2, {"content": "else"})):
        refused = await twin.refusal("trace_import", items=[*lines[:place], {**lines[place], **change}])
        assert (refused.code, refused.context["field"]) == (40901, f"items.{place}")
    refused = await fleet.bot().refusal("trace_import", items=lines[1:2])
    assert (refused.code, refused.context["field"]) == (40401, "items.0")
    assert await trace(twin) == lines


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"number": 9}, "number"),
        ({"status": "proposed"}, "status"),
        ({"proposal": None}, "status"),
        ({"proposal": {"thoughts": "x" * 300_000, "by": "bot", "at": "2026-01-31T09:00:00Z"}}, "proposal"),
    ],
)
async def test_a_cycle_that_no_agent_comes_to_is_refused(
    fleet: Fleet, bot: Bot, change: dict[str, Any], field: str
) -> None:
    await lived(bot)
    agent, cycle, *_ = await trace(bot)
    twin = fleet.bot()
    refused = await twin.refusal("trace_import", items=[agent, {**cycle, **change}])
    assert refused.context["field"] == f"items.1.{field}"
    assert (await twin.ask("cycle_begin", agent_id="alpha"))["number"] == 1


async def test_a_large_trace_is_imported(fleet: Fleet, bot: Bot) -> None:
    await bot.registered()
    for number in range(3):
        await bot.cycle(output=f"{number}" + "x" * 200_000)
    lines = await trace(bot)
    twin = fleet.bot()
    await twin.ask("trace_import", items=lines)
    assert await trace(twin) == lines
