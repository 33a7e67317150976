"""Sessions are found by values of their state, if their app declares an index of the key, on every store."""

import asyncio
from typing import Any

import pytest

from hivemem_runtime.ledger.port import Head
from hivemem_sessions.entities import App
from hivemem_sessions.reactions.state_indexes import fill_indexes

from .hive import Agent, Body, eventually

pytestmark = pytest.mark.asyncio(loop_scope="session")

APP = "app"


async def found(bot: Agent, where: Body, **fields: Any) -> list[str]:
    """Return the ids of all pages of two, once the indexes are complete."""
    ids: list[str] = []
    cursor: str | None = None
    while True:
        after = {"cursor": cursor} if cursor else {}
        page = await bot.ask("list", {"app_name": APP, "where": where, "limit": 2, **fields, **after})
        ids += [item["session_id"] for item in page["items"]]
        cursor = page["cursor"]
        if cursor is None:
            return ids


async def declare(bot: Agent, *keys: str) -> Body:
    """Declare the indexes, and wait until they are complete."""
    await bot.ask("app_put", app_name=APP, state_indexes=keys)

    async def complete() -> bool:
        return not (await bot.ask("app_get", app_name=APP))["pending"]

    await eventually(complete, "the indexes are complete")
    return await bot.ask("app_get", app_name=APP)


async def test_a_session_is_found_by_the_value_that_a_key_has_now(bot: Agent) -> None:
    assert await declare(bot, "topic", "n") == {"app_name": APP, "state_indexes": ["topic", "n"], "pending": []}
    await bot.create("s1", initial_state={"topic": "bees", "n": 1})
    await bot.create("s2", user_id="ann", initial_state={"topic": "bees"})
    await bot.create("s3")
    await bot.create("other", app_name="other", initial_state={"topic": "bees"})
    assert await found(bot, {"topic": "bees"}) == ["s2", "s1"]
    await bot.append("s3", state_delta={"topic": "bees", "n": 1})
    await bot.append("s1")
    assert await found(bot, {"topic": "bees"}) == ["s3", "s2", "s1"]
    assert await found(bot, {"topic": "bees"}, sort="-updated_at") == ["s1", "s3", "s2"]
    assert await found(bot, {"topic": "bees", "n": 1}) == ["s3", "s1"]
    assert await found(bot, {"topic": "bees"}, status="active") == ["s3", "s1"]
    assert await found(bot, {"topic": "bees"}, user_id="ann") == ["s2"]
    await bot.ask("state_set", session_id="s3", key="topic", value=None)
    await bot.ask("state_set", session_id="s2", key="topic", value=["bees"])
    await bot.ask("fork", session_id="s1", new_session_id="s4")
    assert await found(bot, {"topic": "bees"}) == ["s4", "s1"]
    await bot.ask("delete", session_id="s1")
    await bot.ask("terminate", session_id="s4")
    await bot.ask("archive", session_id="s4")
    assert await found(bot, {"topic": "bees"}) == ["s4"]


async def test_a_value_is_found_by_its_type_and_whatever_its_size(bot: Agent) -> None:
    await declare(bot, "k")
    values: dict[str, Any] = {"int": 1, "true": True, "text": "1", "long": "x" * 200_000, "float": 0.5, "big": 2**62}
    for name, value in values.items():
        await bot.create(name, initial_state={"k": value})
    await bot.create("null", state_nulls=["k"])
    await bot.create("missing")
    for name, value in (*values.items(), ("null", None)):
        assert await found(bot, {"k": value}) == [name]
    assert await found(bot, {"k": 1.0}) == ["int"]
    assert await found(bot, {"k": 0}) == []


async def test_an_index_that_is_declared_later_gets_the_earlier_sessions(bot: Agent) -> None:
    for n in range(5):
        await bot.create(f"s{n}", initial_state={"a": n % 2, "b": n})
    await bot.ask("terminate", session_id="s3")
    before = await bot.session("s3")
    await declare(bot, "a")
    assert await found(bot, {"a": 1}) == ["s3", "s1"]
    assert await bot.session("s3") == {**before, "revision": before["revision"] + 1}
    await declare(bot, "b", "a")
    assert await found(bot, {"b": 3}) == ["s3"]
    assert await found(bot, {"a": 1}) == ["s3", "s1"]
    told = [change.body["value"] for change in await bot.feed() if change.what == "app.changed"]
    assert told == [
        {"state_indexes": ["a"], "pending": ["a"]},
        {"state_indexes": ["a"], "pending": []},
        {"state_indexes": ["b", "a"], "pending": ["b"]},
        {"state_indexes": ["b", "a"], "pending": []},
    ]


async def test_a_declaration_among_creations_misses_none(bot: Agent) -> None:
    """The last creations, forks and declarations are under way together."""
    await bot.create("origin", initial_state={"a": 1, "b": 1})
    making = [bot.create(f"s{n}", initial_state={"a": 1, "b": 1}) for n in range(60)]
    making += [bot.ask("fork", session_id="origin", new_session_id=f"f{n}") for n in range(20)]
    declaring = [bot.ask("app_put", app_name=APP, state_indexes=keys) for keys in (["a"], ["b"], ["a", "b"], ["b"])]
    await asyncio.gather(*making[:40], *declaring[:2], *making[40:], *declaring[2:])
    await declare(bot, "b", "a")
    for key in ("a", "b"):
        assert len(await found(bot, {key: 1})) == 81


async def test_a_slot_is_used_again_without_what_was_in_it(bot: Agent) -> None:
    await declare(bot, "a")
    await bot.create("s1", initial_state={"a": 1, "b": 2})
    await declare(bot)
    refused = await bot.refusal("list", app_name=APP, where={"a": 1})
    assert (refused.code, refused.context["field"]) == (40001, "where.a")
    await declare(bot, "b")
    assert await found(bot, {"b": 1}) == []
    assert await found(bot, {"b": 2}) == ["s1"]
    revision = (await bot.session("s1"))["revision"]
    assert (await bot.ask("app_put", app_name=APP, state_indexes=["b"]))["pending"] == []
    await fill_indexes(bot.ledger, bot.tenant, APP)
    assert (await bot.session("s1"))["revision"] == revision


async def test_an_incomplete_index_is_no_shorter_list(bot: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    incomplete = Head(APP, 1, 0, App({"a": 0, "b": 1}, 2, ["b"]))

    async def head(*key: object) -> Head[App]:
        return incomplete

    await declare(bot, "a", "b")
    monkeypatch.setattr(bot.ledger, "head", head)
    assert await found(bot, {"a": 1}) == []
    refused = await bot.refusal("list", app_name=APP, where={"a": 1, "b": 1})
    assert (refused.code, refused.error["retryable"], refused.context["field"]) == (50301, True, "where.b")


@pytest.mark.parametrize(
    ("operation", "fields", "field"),
    [
        ("list", {"where": {"a": 1}}, "where"),
        ("list", {"app_name": APP, "where": {"b": 1}}, "where.b"),
        ("list", {"app_name": APP, "where": {}}, "where"),
        ("list", {"app_name": APP, "where": {"a": [1]}}, "where.a"),
        ("list", {"app_name": APP, "where": {f"k{n}": 1 for n in range(9)}}, "where"),
        ("app_put", {"app_name": APP, "state_indexes": ["a", "a"]}, "state_indexes"),
        ("app_put", {"app_name": APP, "state_indexes": ["a", "user:x"]}, "state_indexes.1"),
        ("app_put", {"app_name": APP, "state_indexes": [f"k{n}" for n in range(9)]}, "state_indexes"),
        ("app_put", {"app_name": APP}, "state_indexes"),
    ],
)
async def test_what_has_no_index_is_refused_by_name(bot: Agent, operation: str, fields: Body, field: str) -> None:
    await declare(bot, "a")
    refused = await bot.refusal(operation, fields)
    assert (refused.code, refused.context["field"]) == (40001, field)
