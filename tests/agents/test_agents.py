"""The definition and the status of agents."""

import pytest

from .conftest import Bot

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_a_definition_keeps_what_is_left_out_and_loses_what_is_null(bot: Bot) -> None:
    first = await bot.ask("register", agent_id="alpha", name="Alpha", directives=["be kind"], overrides={"model": "m"})
    assert (first["version"], first["status"], first["cycles"], first["open_cycle"]) == (1, "active", 0, None)
    second = await bot.ask("register", agent_id="alpha", name=None, metadata={"team": "blue"})
    assert (second["name"], second["directives"], second["overrides"]) == (None, ["be kind"], {"model": "m"})
    assert (second["version"], second["metadata"]) == (2, {"team": "blue"})
    assert second["created_at"] == first["created_at"] < second["updated_at"]


async def test_registering_the_same_again_changes_nothing(bot: Bot) -> None:
    await bot.ask("register", agent_id="alpha", name="Alpha")
    again = await bot.ask("register", agent_id="alpha", name="Alpha", id="again")
    assert again == {**await bot.ask("get", agent_id="alpha"), "duplicate": False}
    assert (await bot.ask("register", agent_id="alpha", name="Alpha", id="again"))["version"] == 1
    assert [told.what for told in await bot.feed()] == ["agent.registered"]


async def test_an_expected_version_is_compared(bot: Bot) -> None:
    await bot.ask("register", agent_id="alpha", expect_version=0)
    refused = await bot.refusal("register", agent_id="alpha", name="b", expect_version=0)
    assert (refused.code, refused.context) == (40902, {"expected": 0, "actual": 1})


async def test_a_status_changes_until_it_is_final(bot: Bot) -> None:
    await bot.registered()
    for status in ("paused", "active", "retired"):
        assert (await bot.ask("set_status", agent_id="alpha", status=status))["status"] == status
    refused = await bot.refusal("set_status", agent_id="alpha", status="active")
    assert (refused.code, refused.context) == (40903, {"status": "retired", "allowed": []})
    refused = await bot.refusal("cycle_begin", agent_id="alpha")
    assert refused.error["detail"] == "agent 'alpha' is retired: only an active agent begins a cycle"
    assert (await bot.ask("resume", agent_id="alpha"))["step"] == "begin"


@pytest.mark.parametrize("status", ["paused", "retired"])
async def test_an_open_cycle_ends_whatever_the_status_is(bot: Bot, status: str) -> None:
    await bot.registered()
    await bot.ask("cycle_begin", agent_id="alpha")
    await bot.ask("set_status", agent_id="alpha", status=status)
    await bot.ask("propose", agent_id="alpha", number=1)
    assert (await bot.ask("complete", agent_id="alpha", number=1, outcome="success"))["status"] == "completed"


async def test_agents_are_listed_by_id_and_status(bot: Bot) -> None:
    for agent_id in ("c", "a", "b"):
        await bot.registered(agent_id)
    await bot.ask("set_status", agent_id="b", status="paused")
    first = await bot.ask("list", limit=2)
    rest = await bot.ask("list", limit=2, cursor=first["cursor"])
    assert [item["agent_id"] for item in first["items"] + rest["items"]] == ["a", "b", "c"]
    assert rest["cursor"] is None
    assert [item["agent_id"] for item in (await bot.ask("list", status="paused"))["items"]] == ["b"]


async def test_a_list_of_large_definitions_has_all_of_them(bot: Bot) -> None:
    for number in range(5):
        await bot.ask("register", agent_id=f"a{number}", directives="x" * 250_000)
    found: list[str] = []
    cursor: str | None = None
    while True:
        page = await bot.ask("list", {"cursor": cursor} if cursor else {})
        found += [item["agent_id"] for item in page["items"]]
        cursor = page["cursor"]
        if cursor is None:
            break
    assert found == [f"a{number}" for number in range(5)]


async def test_a_definition_has_a_limit_as_a_whole(bot: Bot) -> None:
    half = "x" * 140_000
    refused = await bot.refusal("register", agent_id="alpha", directives=half, metadata={"more": half})
    assert (refused.error["name"], refused.context["field"]) == ("TooLarge", "definition")


@pytest.mark.parametrize("agent_id", ["", "a:b", " a", "a\n", "a" * 201])
async def test_an_id_is_one_segment_of_a_namespace(bot: Bot, agent_id: str) -> None:
    refused = await bot.refusal("register", agent_id=agent_id)
    assert (refused.code, refused.context["field"]) == (40001, "agent_id")


@pytest.mark.parametrize(
    ("operation", "fields"),
    [
        ("get", {}),
        ("set_status", {"status": "paused"}),
        ("cycle_begin", {}),
        ("propose", {"number": 1}),
        ("complete", {"number": 1, "outcome": "success"}),
        ("abandon", {"number": 1, "reason": "r"}),
        ("resume", {}),
        ("cycle", {"number": 1}),
        ("cycles", {}),
        ("record", {"kind": "plan", "content": "c"}),
        ("records", {}),
        ("recall", {"query": "q"}),
        ("prune", {"max_entries": 1}),
        ("trace", {}),
    ],
)
async def test_an_unknown_agent_is_named(bot: Bot, operation: str, fields: dict[str, object]) -> None:
    refused = await bot.refusal(operation, {"agent_id": "nobody", **fields})
    assert (refused.code, refused.error["detail"]) == (40401, "agent 'nobody' is not registered")
