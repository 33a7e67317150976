"""Listing and counting: every combination of filters agrees with a plain filter over all memories, in both orders."""

import itertools
import random
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pytest

from hivemem_contracts.identifiers import format_time
from hivemem_contracts.limits import REPLY_BYTES
from hivemem_memory.entities import ENTITIES
from hivemem_runtime.ledger.entity import AnyEntity
from hivemem_runtime.ledger.port import QueryKind
from hivemem_runtime.paging import EXAMINED

from .exact import exactly
from .hive import LIFE_SECONDS, NAMESPACE, Agent, Body, eventually
from .past_model import Place

pytestmark = pytest.mark.asyncio(loop_scope="session")

NAMESPACES: Final = ("user:a", "user:a:x", "user:a:x:y", "user:ab", "user:b", "project:a", "temp:s")
PREFIXES: Final = ("user", "user:a", "user:a:x", "project", "temp:s", "session")
KINDS: Final = ("semantic", "episodic", "procedural")
MIDDLE: Final = "2026-06-01T00:00:00.000000Z"
STRETCHES: Final = (
    (None, None),
    (None, MIDDLE),
    (MIDDLE, None),
    ("2026-01-01T00:00:00.000000Z", "2026-12-01T00:00:00.000000Z"),
)


async def populated(bot: Agent, seed: int, writes: int = 80) -> list[Body]:
    """Memories of all kinds, some of them deleted."""
    draw = random.Random(seed)
    places: set[Place] = set()
    for number in range(writes):
        agent = bot.called(draw.choice(("bot", "eve")))
        namespace, key = draw.choice(NAMESPACES), draw.choice("abcdef")
        start, end = draw.choice(STRETCHES)
        fields: Body = {"namespace": namespace, "key": key, "value": number, "memory_type": draw.choice(KINDS)}
        await agent.ask("put", fields, valid_from=start, valid_to=end)
        if draw.random() < 0.3:
            await agent.ask("delete", namespace=namespace, key=key)
        places.add((namespace, key))
    return [await bot.ask("get", namespace=name, key=key, include_deleted=True) for name, key in sorted(places)]


def fits(memory: Body, asked: Body) -> bool:
    start, end, at = memory["valid_from"], memory["valid_to"], asked.get("valid_at")
    return (
        f"{memory['namespace']}:".startswith(f"{asked['prefix']}:")
        and (asked.get("include_deleted", False) or not memory["deleted"])
        and asked.get("memory_type") in (None, memory["memory_type"])
        and asked.get("created_by") in (None, memory["created_by"])
        and memory["updated_at"] > asked.get("updated_after", "")
        and (at is None or ((start is None or start <= at) and (end is None or at < end)))
    )


def in_order(memories: list[Body], sort: str) -> list[Body]:
    if sort == "key":
        return sorted(memories, key=lambda memory: (memory["namespace"].split(":"), memory["key"]))
    return sorted(memories, key=lambda memory: memory["updated_at"], reverse=True)


def combinations(made: list[Body]) -> list[Body]:
    """Return every combination of filters, omitting None."""
    choices: dict[str, tuple[Any, ...]] = {
        "prefix": PREFIXES,
        "memory_type": (None, "episodic"),
        "created_by": (None, "eve", "nobody"),
        "include_deleted": (None, True),
        "updated_after": (None, sorted(memory["updated_at"] for memory in made)[len(made) // 2]),
        "valid_at": (None, MIDDLE),
    }
    asked = [dict(zip(choices, values, strict=True)) for values in itertools.product(*choices.values())]
    return [{name: value for name, value in body.items() if value is not None} for body in asked]


@pytest.mark.parametrize("seed", [1, 2])
async def test_every_combination_of_filters_in_both_orders(bot: Agent, seed: int) -> None:
    made = await populated(bot, seed)
    draw = random.Random(seed)
    for asked in combinations(made):
        for sort in ("key", "-updated_at"):
            expected = in_order([memory for memory in made if fits(memory, asked)], sort)
            limit = draw.choice((1, 2, 7, 100))
            assert await bot.pages("list", **asked, sort=sort, limit=limit) == expected, (asked, sort, limit)


async def test_every_combination_is_counted(bot: Agent) -> None:
    made = await populated(bot, 3)
    for asked in combinations(made):
        if "updated_after" not in asked and "valid_at" not in asked:
            answer = await exactly(bot, "count", asked)
            assert answer == {"count": sum(fits(memory, asked) for memory in made)}, asked


async def test_by_fields_of_the_value(bot: Agent) -> None:
    values: dict[str, Any] = {
        "flat": {"n": 1, "a": "x", "none": None},
        "float": {"n": 1.0, "a": "y"},
        "true": {"n": True},
        "text": {"n": "1"},
        "nested": {"n": [1], "address": {"city": "Rome", "a.b": 1}},
        "dotted": {"address.city": "Rome", "address": {"city": "Paris"}},
        "list": [{"n": 1}],
        "plain": 1,
        "deleted": {"n": 1},
    }
    for key, value in values.items():
        await bot.put(key, value)
    await bot.delete("deleted")

    async def by(**where: Any) -> list[str]:
        found = [await bot.keys(where=where, sort=sort, include_deleted=True) for sort in ("key", "-updated_at")]
        assert found[0] == sorted(found[1])
        return found[0]

    assert await by(n=1) == ["flat", "float"]
    assert await by(n=True) == ["true"]
    assert await by(n="1") == ["text"]
    assert await by(n=1, a="x") == ["flat"]
    assert await by(none=None) == ["flat"]
    assert await by(missing=None) == []
    assert await by(**{"address.city": "Rome"}) == ["dotted", "nested"]
    assert await by(**{"address.city": "Paris"}) == []
    assert await by(**{"address.a.b": 1}) == []
    assert await by(address="Rome") == []


async def test_a_page_by_fields_of_the_value_is_bounded(bot: Agent) -> None:
    count = EXAMINED + 10
    for start in range(0, count, 670):
        keys = [f"k{number:05}" for number in range(start, start + 670)]
        await bot.ask("put_batch", puts=[{"namespace": NAMESPACE, "key": key, "value": {"k": key}} for key in keys])
    asked: Body = {"prefix": NAMESPACE, "where": {"k": f"k{count - 1:05}"}}
    page = await bot.ask("list", asked)
    assert page["items"] == []
    refused = await bot.refusal("list", prefix=NAMESPACE, where={"k": "other"}, cursor=page["cursor"])
    assert (refused.code, refused.context["field"]) == (40001, "cursor")
    rest = await bot.ask("list", asked, cursor=page["cursor"])
    assert [memory["value"] for memory in rest["items"]] == [asked["where"]]


async def test_a_page_is_whole_and_ends_with_a_cursor_only_where_more_follows(bot: Agent) -> None:
    for key in ("a", "b", "c"):
        await bot.put(key, key)
    page = await exactly(bot, "list", prefix=NAMESPACE, limit=2)
    assert page["items"] == [await bot.memory("a"), await bot.memory("b")]
    page = await exactly(bot, "list", prefix=NAMESPACE, limit=2, cursor=page["cursor"])
    assert (page["items"], page["cursor"]) == ([await bot.memory("c")], None)
    assert (await bot.ask("list", prefix=NAMESPACE, limit=3))["cursor"] is None


async def test_expired_memories_are_neither_listed_nor_counted(bot: Agent) -> None:
    expires_at = datetime.now(UTC) + timedelta(seconds=LIFE_SECONDS)
    for key in ("a", "b", "c"):
        await bot.put(key, 1, expires_at=None if key == "b" else format_time(expires_at))
    assert await bot.keys() == ["a", "b", "c"]
    await eventually(lambda: datetime.now(UTC) > expires_at, "they have expired")
    assert await bot.keys() == ["b"]
    assert await bot.keys(sort="-updated_at") == ["b"]
    assert (await bot.ask("count", prefix=NAMESPACE))["count"] == 1
    everything = await bot.pages("list", prefix=NAMESPACE, include_deleted=True)
    assert [(memory["key"], memory["deleted"], memory["value"]) for memory in everything] == [
        ("a", True, None),
        ("b", False, 1),
        ("c", True, None),
    ]
    assert (await bot.ask("count", prefix=NAMESPACE, include_deleted=True))["count"] == 3


async def test_pages_hold_still_for_what_is_not_written_meanwhile(bot: Agent) -> None:
    """The newest come first; memories written again move to the front, and the others keep their place."""
    keys = [f"k{number:03}" for number in range(40)]
    for key in keys:
        await bot.put(key, 0, memory_type="episodic" if key < "k020" else "semantic")
    seen: list[str] = []
    cursor: str | None = None
    for key in itertools.chain(keys[:10], itertools.repeat(keys[0])):
        fields: Body = {"prefix": NAMESPACE, "sort": "-updated_at", "limit": 3, "memory_type": "episodic"}
        page = await bot.ask("list", fields, **({"cursor": cursor} if cursor else {}))
        seen += [memory["key"] for memory in page["items"]]
        cursor = page["cursor"]
        if cursor is None:
            break
        await bot.put(key, 1)
    assert set(seen) >= set(keys[10:20])
    assert len(seen) == len(set(seen))


async def test_large_memories_come_in_shorter_pages(bot: Agent) -> None:
    for number in range(5):
        await bot.put(f"k{number}", "x" * 300_000, memory_type="episodic" if number % 2 else "semantic")
    for sort in ("key", "-updated_at"):
        page = await bot.ask("list", prefix=NAMESPACE, sort=sort)
        assert 0 < sum(len(memory["value"]) for memory in page["items"]) <= REPLY_BYTES
        found = [memory["key"] for memory in await bot.pages("list", prefix=NAMESPACE, sort=sort)]
        assert found == sorted(found, reverse=sort != "key")
        assert len(found) == 5
    assert await bot.keys(memory_type="episodic") == ["k1", "k3"]


async def test_pages_go_on_past_what_is_not_asked_for(bot: Agent) -> None:
    await bot.put("rare", 1, memory_type="episodic")
    count = EXAMINED + 500
    for start in range(0, count, 500):
        keys = [f"k{number:05}" for number in range(start, start + 500)]
        await bot.ask("put_batch", puts=[{"namespace": NAMESPACE, "key": key, "value": key} for key in keys])
    asked: Body = {"prefix": NAMESPACE, "sort": "-updated_at", "memory_type": "episodic", "limit": 2}
    page = await bot.ask("list", asked)
    assert page["items"] == []
    assert page["cursor"] is not None
    assert [memory["key"] for memory in await bot.pages("list", **asked)] == ["rare"]
    assert (await bot.ask("count", prefix="user", memory_type="semantic", include_deleted=True))["count"] == count
    assert (await bot.ask("count", prefix="user", memory_type="episodic", created_by="bot"))["count"] == 1


async def test_a_cursor_belongs_to_its_list(bot: Agent) -> None:
    for key in ("a", "b", "c"):
        await bot.put(key, key)
        await bot.ask("put", namespace="user:bob", key=key, value=key)
    cursor = (await bot.ask("list", prefix=NAMESPACE, limit=1))["cursor"]
    others: list[Body] = [
        {"prefix": "user:bob"},
        {"prefix": "user"},
        {"prefix": NAMESPACE, "sort": "-updated_at"},
        {"prefix": NAMESPACE, "include_deleted": True},
        {"prefix": NAMESPACE, "memory_type": "semantic"},
        {"prefix": NAMESPACE, "created_by": "bot"},
        {"prefix": NAMESPACE, "valid_at": MIDDLE},
        {"prefix": NAMESPACE, "updated_after": MIDDLE},
    ]
    for asked in others:
        refused = await bot.refusal("list", asked, cursor=cursor)
        assert (refused.code, refused.context["field"]) == (40001, "cursor"), asked
    snapshot = (await bot.ask("snapshot", namespace=NAMESPACE, limit=1))["cursor"]
    for wrong in (snapshot, "?", "AAAA", cursor[:-4]):
        refused = await bot.refusal("list", prefix=NAMESPACE, cursor=wrong)
        assert (refused.code, refused.context["field"]) == (40001, "cursor")
    assert len((await bot.ask("list", prefix=NAMESPACE, limit=9, cursor=cursor))["items"]) == 2


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"prefix": "alice"}, "prefix"),
        ({"prefix": "user:"}, "prefix"),
        ({"prefix": ""}, "prefix"),
        ({"limit": 0}, "limit"),
        ({"limit": 1_001}, "limit"),
        ({"sort": "value"}, "sort"),
        ({"memory_type": "vague"}, "memory_type"),
        ({"updated_after": "yesterday"}, "updated_after"),
        ({"tag": "x"}, "tag"),
        ({"where": {}}, "where"),
        ({"where": {"n": [1]}}, "where.n"),
        ({"where": {"": 1}}, "where."),
        ({"where": {str(n): n for n in range(17)}}, "where"),
    ],
)
async def test_what_is_no_filter_is_refused_by_name(bot: Agent, fields: Body, field: str) -> None:
    refused = await bot.refusal("list", {"prefix": "user", **fields})
    assert (refused.code, refused.context["field"]) == (40001, field)


@pytest.mark.parametrize("query", ["find", "covered", "count"])
@pytest.mark.parametrize(
    ("entity", "index"),
    [(entity, index.name) for entity in ENTITIES for index in entity.indexes],
    ids=lambda value: value if isinstance(value, str) else value.name,
)
async def test_no_declared_index_scans(bot: Agent, entity: AnyEntity, index: str, query: QueryKind) -> None:
    plan = await bot.ledger.explain(entity, index, query)
    assert any(step.startswith(("SEARCH", "IXSCAN", "COUNT_SCAN")) for step in plan), plan
    assert not [step for step in plan if step.split()[0] in ("SCAN", "COLLSCAN", "SORT") or "TEMP B-TREE" in step], plan
