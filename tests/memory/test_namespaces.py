"""The list of namespaces agrees with one made from all memories, and does not read them."""

import itertools
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pytest

from hivemem_contracts.identifiers import format_time
from hivemem_memory.endpoints import namespace_lists

from .hive import LIFE_SECONDS, Agent, Body, eventually

pytestmark = pytest.mark.asyncio(loop_scope="session")

LIVING: Final = (
    "app:crm",
    "project:a:x",
    "user:a",
    "user:a:b",
    "user:a:b:travel",
    "user:a:travel",
    "user:a:travel:x:travel",
    "user:ab:travel",
    "user:é:travel",
    "user:🐝:x",
)
GONE: Final = ("app:crm:deleted", "temp:deleted", "user:a:deleted:travel", "user:zz")
PREFIXES: Final = (None, "user", "user:a", "user:a:b", "app", "session", "user:a:deleted")
SUFFIXES: Final = (None, "travel", "b:travel", "a", "user:a", "ravel")
DEPTHS: Final = (None, 1, 2, 3, 9)


async def populated(bot: Agent) -> None:
    puts = [{"namespace": name, "key": key, "value": 1} for name in (*LIVING, *GONE) for key in ("k", "k:x", "🐝", "z")]
    await bot.ask("put_batch", puts=puts)
    for name, key in itertools.product(GONE, ("k", "k:x", "🐝", "z")):
        await bot.ask("delete", namespace=name, key=key)
    await bot.ask("erase", namespace="user:zz")


def expected(prefix: str | None, suffix: str | None, depth: int | None) -> list[str]:
    found = {
        ":".join(name.split(":")[:depth])
        for name in LIVING
        if (prefix is None or f"{name}:".startswith(f"{prefix}:")) and (not suffix or f":{name}".endswith(f":{suffix}"))
    }
    return sorted(found, key=lambda name: name.split(":"))


async def test_every_combination_of_prefix_suffix_and_depth(bot: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    await populated(bot)
    for reads, (prefix, suffix, depth) in itertools.product((100, 1), itertools.product(PREFIXES, SUFFIXES, DEPTHS)):
        monkeypatch.setattr(namespace_lists, "READS", reads)
        monkeypatch.setattr(namespace_lists, "PLACES_AT_ONCE", 100 if reads > 1 else 3)
        asked: Body = {"prefix": prefix, "suffix": suffix, "depth": depth}
        asked = {name: value for name, value in asked.items() if value is not None}
        for limit in (2, 100):
            found: list[Any] = await bot.pages("namespaces", **asked, limit=limit)
            assert found == expected(prefix, suffix, depth), asked


async def test_a_page_ends_with_a_cursor_only_where_more_follows(bot: Agent) -> None:
    await populated(bot)
    count = len(expected("user", None, None))
    page = await bot.ask("namespaces", prefix="user", limit=count - 1)
    assert (len(page["items"]), page["cursor"] is None) == (count - 1, False)
    assert (await bot.ask("namespaces", prefix="user", limit=count))["cursor"] is None
    refused = await bot.refusal("namespaces", prefix="app", cursor=page["cursor"])
    assert (refused.code, refused.context["field"]) == (40001, "cursor")


async def test_a_large_namespace_costs_as_much_as_a_small_one(bot: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    puts = [{"namespace": "user:large", "key": f"k{number:03}", "value": 1} for number in range(500)]
    await bot.ask("put_batch", puts=puts)
    await bot.ask("put", namespace="user:small", key="k", value=1)
    reads: list[Any] = []
    covered = bot.ledger.covered

    async def counted(*args: Any, **fields: Any) -> Any:
        reads.append(fields)
        return await covered(*args, **fields)

    monkeypatch.setattr(bot.ledger, "covered", counted)
    assert (await bot.ask("namespaces", prefix="user"))["items"] == ["user:large", "user:small"]
    assert len([fields for fields in reads if fields.get("limit") == namespace_lists.PLACES_AT_ONCE]) == 2


async def test_a_namespace_whose_last_memory_expires_is_gone(bot: Agent) -> None:
    expires_at = datetime.now(UTC) + timedelta(seconds=LIFE_SECONDS)
    await bot.ask("put", namespace="user:a", key="k", value=1, expires_at=format_time(expires_at))
    await bot.ask("put", namespace="user:a:b", key="k", value=1)
    assert (await bot.ask("namespaces"))["items"] == ["user:a", "user:a:b"]
    await eventually(lambda: datetime.now(UTC) > expires_at, "it has expired")
    assert (await bot.ask("namespaces"))["items"] == ["user:a:b"]


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"prefix": "user:"}, "prefix"),
        ({"prefix": "alice"}, "prefix"),
        ({"suffix": ":travel"}, "suffix"),
        ({"suffix": ""}, "suffix"),
        ({"depth": 0}, "depth"),
        ({"depth": 257}, "depth"),
        ({"limit": 1_001}, "limit"),
        ({"max_depth": 2}, "max_depth"),
    ],
)
async def test_what_is_wrong_is_named(bot: Agent, fields: Body, field: str) -> None:
    refused = await bot.refusal("namespaces", fields)
    assert (refused.code, refused.context["field"]) == (40001, field)
