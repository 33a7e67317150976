"""Cycles: their steps in order, one open at a time, under the newest lease."""

import asyncio
from typing import Any

import pytest

from .conftest import Bot

pytestmark = pytest.mark.asyncio(loop_scope="session")


def claim(token: int, namespace: str = "app:agents:alpha") -> dict[str, Any]:
    return {"namespace": namespace, "token": token}


async def numbers(bot: Bot, **fields: Any) -> list[int]:
    """Return the numbers of all cycles, read page by page."""
    found: list[int] = []
    cursor: str | None = None
    while True:
        page = await bot.ask("cycles", {"cursor": cursor} if cursor else {}, agent_id="alpha", **fields)
        found += [item["number"] for item in page["items"]]
        cursor = page["cursor"]
        if cursor is None:
            return found


async def test_a_cycle_has_one_proposal_and_then_one_result(bot: Bot) -> None:
    await bot.registered()
    begun = await bot.ask("cycle_begin", agent_id="alpha", session_id="s1")
    assert (begun["number"], begun["status"], begun["session_id"]) == (1, "begun", "s1")
    here = {"agent_id": "alpha", "number": 1}
    refused = await bot.refusal("complete", here, outcome="success")
    assert (refused.code, refused.context) == (40903, {"status": "begun", "allowed": ["propose", "abandon"]})
    tool = {"name": "search", "arguments": {"query": "ferry"}}
    proposed = await bot.ask("propose", here, thoughts="look it up", tool=tool)
    assert (proposed["status"], proposed["proposal"]["tool"], proposed["proposal"]["plan"]) == ("proposed", tool, None)
    refused = await bot.refusal("propose", here, thoughts="again")
    assert refused.context == {"status": "proposed", "allowed": ["complete", "abandon"]}
    completed = await bot.ask("complete", here, outcome="failure", error={"code": 3}, artifacts=["hive://t/s1/a"])
    assert (completed["status"], completed["proposal"]) == ("failed", proposed["proposal"])
    result = completed["result"]
    assert (result["outcome"], result["error"], result["artifacts"]) == ("failure", {"code": 3}, ["hive://t/s1/a"])
    for operation, fields in (("propose", {}), ("complete", {"outcome": "success"}), ("abandon", {"reason": "r"})):
        assert (await bot.refusal(operation, {**here, **fields})).context == {"status": "failed", "allowed": []}
    assert await bot.ask("cycle", here) == {name: completed[name] for name in completed if name != "duplicate"}
    assert [(told.what, told.body["version"], told.body["key"]) for told in await bot.feed("cycle.>")] == [
        ("cycle.begun", 1, "1"),
        ("cycle.proposed", 2, "1"),
        ("cycle.failed", 3, "1"),
    ]


async def test_resume_says_where_an_agent_stands(bot: Bot) -> None:
    await bot.registered()

    async def standing() -> tuple[str, int | None]:
        found = await bot.ask("resume", agent_id="alpha")
        return found["step"], None if found["cycle"] is None else found["cycle"]["number"]

    assert await standing() == ("begin", None)
    await bot.ask("cycle_begin", agent_id="alpha")
    assert await standing() == ("propose", 1)
    await bot.ask("propose", agent_id="alpha", number=1)
    assert await standing() == ("act", 1)
    await bot.ask("abandon", agent_id="alpha", number=1, reason="the tool is gone")
    assert await standing() == ("begin", None)
    assert (await bot.ask("cycle", agent_id="alpha", number=1))["reason"] == "the tool is gone"


async def test_of_many_that_begin_at_once_one_does(bot: Bot) -> None:
    await bot.registered()
    begins = [bot.called(f"bot{number}").ask("cycle_begin", agent_id="alpha") for number in range(20)]
    outcomes = await asyncio.gather(*begins, return_exceptions=True)
    assert sum(isinstance(outcome, dict) for outcome in outcomes) == 1
    agent = await bot.ask("get", agent_id="alpha")
    assert (agent["cycles"], agent["open_cycle"]) == (1, 1)
    refused = await bot.refusal("cycle_begin", agent_id="alpha")
    assert (refused.code, refused.context["open_cycle"]) == (40903, 1)


async def test_an_overtaken_lease_is_refused_at_each_step(bot: Bot) -> None:
    await bot.registered()
    await bot.ask("cycle_begin", agent_id="alpha", lease=claim(4))
    here = {"agent_id": "alpha", "number": 1}
    # Another runner has the lease now, and goes on with the open cycle.
    await bot.ask("propose", here, lease=claim(5))
    for operation, fields in (("complete", {"outcome": "success"}), ("abandon", {"reason": "r"})):
        refused = await bot.refusal(operation, {**here, **fields}, lease=claim(4))
        assert (refused.code, refused.context) == (40904, {"token": 5})
    other = await bot.refusal("complete", here, outcome="success", lease=claim(9, "app:other"))
    assert (other.code, other.context["field"]) == (40001, "lease")
    await bot.ask("complete", here, outcome="success", lease=claim(5))
    assert (await bot.refusal("cycle_begin", agent_id="alpha", lease=claim(4))).code == 40904
    await bot.ask("cycle_begin", agent_id="alpha", lease=claim(1, "app:other"))


async def test_cycles_are_listed_both_ways_by_status_and_number(bot: Bot) -> None:
    await bot.registered()
    for number in range(1, 8):
        await bot.cycle(outcome="failure" if number % 3 == 0 else "success")

    assert await numbers(bot, limit=2) == [1, 2, 3, 4, 5, 6, 7]
    assert await numbers(bot, limit=2, reverse=True, after=1, before=6) == [5, 4, 3, 2]
    assert await numbers(bot, limit=2, status="failed") == [3, 6]
    assert await numbers(bot, limit=2, status="completed", reverse=True) == [7, 5, 4, 2, 1]
    page = await bot.ask("cycles", agent_id="alpha", limit=2)
    refused = await bot.refusal("cycles", agent_id="alpha", reverse=True, cursor=page["cursor"])
    assert (refused.code, refused.context["field"]) == (40001, "cursor")


async def test_large_cycles_are_listed_whole_and_resumed(bot: Bot) -> None:
    await bot.registered()
    for _ in range(3):
        number = (await bot.ask("cycle_begin", agent_id="alpha"))["number"]
        await bot.ask("propose", agent_id="alpha", number=number, thoughts="x" * 250_000)
        await bot.ask("complete", agent_id="alpha", number=number, outcome="success", output="y" * 250_000)
    assert await numbers(bot) == [1, 2, 3]
    results = (await bot.ask("recall", agent_id="alpha", query="anything"))["results"]
    assert [result["number"] for result in results] == [3]
    refused = await bot.refusal("propose", agent_id="alpha", number=4, thoughts="x" * 200_000, plan="y" * 200_000)
    assert refused.code == 40401
    await bot.ask("cycle_begin", agent_id="alpha")
    refused = await bot.refusal("propose", agent_id="alpha", number=4, thoughts="x" * 200_000, plan="y" * 200_000)
    assert (refused.error["name"], refused.context["field"]) == ("TooLarge", "proposal")
