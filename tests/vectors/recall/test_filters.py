"""Each filter alone and all together, on each store; and the same check on an item's own fields."""

import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from hivemem_contracts.identifiers import format_time
from hivemem_contracts.vectors.requests import Recall
from hivemem_vectors.pipeline.decisions.changes import ItemVersion, version_of_memory
from hivemem_vectors.pipeline.entities import ITEM, MIRROR, event_place, named
from hivemem_vectors.recall.decisions.filters import Question

from .shelf import Body, Shelf

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def found(shelf: Shelf, **asked: Any) -> set[str]:
    """Return the keys that the index finds, after checking them against the mirror."""
    keys = set(await shelf.recall("note", limit=50, **asked))
    wanted = Question.of("", Recall(query="note", **asked), 0)
    fields = await fields_of(shelf)
    assert all(wanted.holds(place, kept) == (named(place)[1] in keys) for place, kept in fields.items())
    return keys


async def fields_of(shelf: Shelf) -> dict[str, dict[str, Any]]:
    """Return the mirrored fields of each item by its place."""
    ledger = shelf.desk.ledger
    page = await ledger.find(ITEM, shelf.tenant, "all", equals={}, limit=1_000)
    mirrors = await ledger.heads(MIRROR, shelf.tenant, [head.id for head in page.items])
    return {id: head.value.fields for id, head in mirrors.items() if head.value is not None}


async def test_by_type(shelf: Shelf) -> None:
    for kind in ("semantic", "episodic", "procedural"):
        await shelf.keep(kind, "note", memory_type=kind)

    assert await found(shelf, memory_type="episodic") == {"episodic"}


async def test_by_creator(shelf: Shelf) -> None:
    await shelf.keep("mine", "note")
    memory = await shelf.bot.called("other").put("theirs", "note")
    await shelf.index(memory)

    assert await found(shelf, filter={"created_by": "other"}) == {"theirs"}
    assert await found(shelf, filter={"created_by": "oth"}) == set()


async def test_by_metadata(shelf: Shelf) -> None:
    kept: dict[str, dict[str, Any]] = {
        "number": {"n": 1, "topic": "tea"},
        "true": {"n": True, "topic": "tea"},
        "text": {"n": "1", "topic": "tea"},
        "float": {"n": 1.5},
        "negative": {"n": -(2**63)},
        "list": {"n": [1]},
        "quoted": {"n": 'a"=1'},
        "none": {},
    }
    for key, metadata in kept.items():
        await shelf.keep(key, "note", metadata=metadata)

    async def by(**metadata: str | int | bool) -> set[str]:
        return await found(shelf, filter={"metadata": metadata})

    assert await by(n=1) == {"number"}
    assert await by(n=True) == {"true"}
    assert await by(n="1") == {"text"}
    assert await by(n=-(2**63)) == {"negative"}
    assert await by(n='a"=1') == {"quoted"}
    assert await by(topic="tea") == {"number", "true", "text"}
    assert await by(topic="tea", n=True) == {"true"}
    assert await by(topic="coffee") == set()
    assert await by() == set(kept)


async def test_by_fields_of_the_value(shelf: Shelf) -> None:
    values: dict[str, dict[str, Any]] = {
        "number": {"n": 1, "topic": "tea", "none": None},
        "float": {"n": 1.0, "topic": "coffee"},
        "true": {"n": True},
        "text": {"n": "1"},
        "half": {"n": 1.5, "large": 1e300},
        "nested": {"at": {"city": "Rome", "n": 1}},
        "dotted": {"at.city": "Rome", "at": {"city": "Paris"}},
    }
    for key, value in values.items():
        await shelf.keep(key, {"text": "note", **value})
    await shelf.sync(event_with_value(shelf))

    async def by(**where: Any) -> set[str]:
        return await found(shelf, filter={"where": where})

    assert await by(n=1) == await by(n=1.0) == {"number", "float"}
    assert await by(n=1, topic="tea") == {"number"}
    assert await by(n=True) == {"true"}
    assert await by(n="1") == {"text"}
    assert await by(n=1.5) == await by(large=1e300) == {"half"}
    assert await by(none=None) == {"number"}
    assert await by(**{"at.city": "Rome"}) == {"nested", "dotted"}
    assert await by(**{"at.city": "Paris"}) == set()
    assert await by(text="note") == set(values)


def event_with_value(shelf: Shelf) -> ItemVersion:
    fields: Body = {"created_by": "bot", "updated_at": 1, "metadata": {}}
    return ItemVersion(shelf.tenant, event_place("s", "e"), 1, False, fields, "note", {"n": 1})


async def test_by_time(shelf: Shelf) -> None:
    written = [(await shelf.keep(key, "note"))["updated_at"] for key in "abc"]

    assert await found(shelf, filter={"updated_after": written[0]}) == {"b", "c"}
    assert await found(shelf, filter={"updated_before": written[2]}) == {"a", "b"}
    assert await found(shelf, filter={"updated_after": written[0], "updated_before": written[2]}) == {"b"}
    assert await found(shelf, filter={"updated_after": "0001-01-01T00:00:00Z"}) == {"a", "b", "c"}
    assert await found(shelf, filter={"updated_before": "0001-01-01T00:00:00Z"}) == set()
    assert await found(shelf, filter={"updated_before": "9999-12-31T00:00:00Z"}) == {"a", "b", "c"}
    assert await found(shelf, filter={"updated_after": "9999-12-31T00:00:00Z"}) == set()


async def test_by_validity(shelf: Shelf) -> None:
    now = datetime.now(UTC)
    past, future = (format_time(now + timedelta(days=days)) for days in (-1, 1))
    await shelf.keep("always", "note")
    await shelf.keep("ended", "note", valid_to=past)
    await shelf.keep("began", "note", valid_from=past)
    await shelf.keep("will", "note", valid_from=future)
    await shelf.keep("for good", "note", valid_from=past, valid_to="9999-12-31T00:00:00Z")

    async def at(moment: str) -> set[str]:
        return await found(shelf, filter={"valid_at": moment})

    assert await at(format_time(now)) == {"always", "began", "for good"}
    assert await at(past) == {"always", "began", "for good"}
    assert await at(format_time(now - timedelta(days=2))) == {"always", "ended"}
    assert await at(future) == {"always", "began", "will", "for good"}
    assert await at("9999-12-31T00:00:00Z") == {"always", "began", "will"}
    assert await at("0001-01-01T00:00:00Z") == {"always", "ended"}


async def test_by_importance(shelf: Shelf) -> None:
    await shelf.keep("unsaid", "note")
    for importance in (0, 0.3, 1):
        await shelf.keep(str(importance), "note", importance=importance)

    assert await found(shelf, filter={"min_importance": 0}) == {"0", "0.3", "1"}
    assert await found(shelf, filter={"min_importance": 0.3}) == {"0.3", "1"}
    assert await found(shelf, filter={"min_importance": 1}) == {"1"}


async def test_all_of_them_together(shelf: Shelf) -> None:
    wanted: Body = {
        "namespace": "user:alice:notes",
        "memory_type": "episodic",
        "metadata": {"topic": "tea", "done": False},
        "importance": 0.7,
        "valid_from": "2020-01-01T00:00:00Z",
        "expires_at": "2999-01-01T00:00:00Z",
    }
    before = (await shelf.keep("before", "note", **wanted))["updated_at"]
    await shelf.keep("wanted", "note", **wanted)
    await shelf.keep("namespace", "note", **wanted | {"namespace": "user:bob"})
    await shelf.keep("type", "note", **wanted | {"memory_type": "semantic"})
    await shelf.keep("metadata", "note", **wanted | {"metadata": {"topic": "tea", "done": True}})
    await shelf.keep("importance", "note", **wanted | {"importance": 0.6})
    await shelf.keep("validity", "note", **wanted | {"valid_to": "2021-01-01T00:00:00Z"})
    await shelf.index(await shelf.bot.called("other").put("creator", "note", **wanted))

    assert await shelf.recall(
        "note",
        namespace_prefix="user:alice",
        memory_type="episodic",
        filter={
            "metadata": {"topic": "tea", "done": False},
            "created_by": "bot",
            "updated_after": before,
            "updated_before": "2999-01-01T00:00:00Z",
            "valid_at": "2024-01-01T00:00:00Z",
            "min_importance": 0.7,
        },
    ) == ["wanted"]


async def test_what_has_expired_is_not_found(shelf: Shelf) -> None:
    told = version_of_memory(shelf.tenant, await shelf.bot.put("k", "note"))
    now = time.time_ns() // 1_000
    await shelf.sync(told._replace(fields={**told.fields, "expires_at": now}))
    assert await shelf.recall("note") == []

    await shelf.sync(told._replace(fields={**told.fields, "expires_at": now + 3_600_000_000}))
    assert await shelf.recall("note") == ["k"]


async def test_what_has_expired_does_not_crowd_out_the_others(shelf: Shelf) -> None:
    for number in range(45):
        told = version_of_memory(shelf.tenant, await shelf.bot.put(f"old{number}", "note"))
        await shelf.sync(told._replace(fields={**told.fields, "expires_at": 1}))
    await shelf.keep("new", "note of something else")

    assert await shelf.recall("note") == ["new"]
