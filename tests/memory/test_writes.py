"""Putting, patching, deleting and restoring over the bus: answers, stored versions and announcements."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson
import pytest

from hivemem_contracts.identifiers import format_time
from hivemem_contracts.limits import MEMORY_VALUE_BYTES, VALUE_BYTES

from .hive import NAMESPACE, Agent, Body, eventually, source

pytestmark = pytest.mark.asyncio(loop_scope="session")

FIELDS: Body = {
    "memory_type": "procedural",
    "metadata": {"tag": ["a", None, {"b": 1}]},
    "importance": 0.25,
    "valid_from": "2026-01-01T00:00:00.000001Z",
    "valid_to": "2027-01-01T00:00:00.000000Z",
    "expires_at": "2999-01-01T00:00:00.000000Z",
    "source": source(session_id="s1", event_id="e1"),
}


def in_time(seconds: float) -> str:
    return format_time(datetime.now(UTC) + timedelta(seconds=seconds))


async def test_a_put_creates_and_the_next_one_replaces(bot: Agent) -> None:
    created = await bot.put("k", {"a": 1})
    assert created == {"namespace": NAMESPACE, "key": "k", "version": 1, "created": True, "duplicate": False}
    replaced = await bot.called("other").put("k", [1, 2])
    assert (replaced["version"], replaced["created"]) == (2, False)
    memory = await bot.memory("k")
    assert (memory["value"], memory["version"], memory["deleted"]) == ([1, 2], 2, False)
    assert (memory["memory_type"], memory["metadata"], memory["importance"]) == ("semantic", {}, None)
    assert (memory["created_by"], memory["updated_by"]) == ("bot", "other")
    assert memory["created_at"] < memory["updated_at"]


async def test_fields_stay_until_they_are_taken_away(bot: Agent) -> None:
    await bot.put("k", 1, **FIELDS)
    assert {name: (await bot.memory("k"))[name] for name in FIELDS} == FIELDS
    await bot.put("k", 2)
    await bot.patch("k", 3)
    memory = await bot.memory("k")
    assert {name: memory[name] for name in FIELDS} == FIELDS
    await bot.put("k", 4, importance=None, valid_from=None, valid_to=None, expires_at=None, source=None)
    memory = await bot.memory("k")
    assert [memory[name] for name in ("importance", "valid_from", "valid_to", "expires_at", "source")] == [None] * 5
    assert (memory["memory_type"], memory["metadata"]) == ("procedural", FIELDS["metadata"])
    await bot.put("k", 5, metadata=None, memory_type=None)
    memory = await bot.memory("k")
    assert (memory["memory_type"], memory["metadata"]) == ("procedural", FIELDS["metadata"])


async def test_a_digest_is_that_of_what_the_version_says(bot: Agent) -> None:
    first = (await bot.put("k", {"b": 1, "a": 2}), await bot.memory("k"))[1]["digest"]
    await bot.put("k", {"a": 2, "b": 1})
    same = (await bot.memory("k"))["digest"]
    await bot.put("k", {"a": 2, "b": 1}, importance=0.5)
    other = (await bot.memory("k"))["digest"]
    assert len(first) == 64
    assert first == same != other


async def test_a_delete_is_a_version_and_a_put_after_it_is_the_next(bot: Agent) -> None:
    await bot.put("k", 1, metadata={"m": 1})
    assert await bot.delete("k") == {
        "namespace": NAMESPACE,
        "key": "k",
        "version": 2,
        "created": False,
        "duplicate": False,
    }
    assert (await bot.refusal("get", namespace=NAMESPACE, key="k")).code == 40401
    assert (await bot.refusal("delete", namespace=NAMESPACE, key="k")).code == 40401
    assert (await bot.refusal("patch", namespace=NAMESPACE, key="k", patch={})).code == 40401
    again = await bot.called("other").put("k", 2)
    assert (again["version"], again["created"]) == (3, True)
    memory = await bot.memory("k")
    assert (memory["metadata"], memory["created_by"], memory["created_at"]) == ({}, "other", memory["updated_at"])
    versions = await bot.versions("k")
    assert [(version["operation"], version["value"], version["deleted"]) for version in versions] == [
        ("put", 1, False),
        ("delete", None, True),
        ("put", 2, False),
    ]


async def test_a_restore_brings_back_what_was_deleted_or_any_version(bot: Agent) -> None:
    await bot.put("k", "first", **FIELDS)
    await bot.put("k", "second")
    await bot.delete("k")
    restored = await bot.called("other").restore("k")
    assert (restored["version"], restored["created"]) == (4, False)
    memory = await bot.memory("k")
    assert (memory["value"], memory["created_by"], memory["updated_by"]) == ("second", "bot", "other")
    assert {name: memory[name] for name in FIELDS} == FIELDS
    assert (await bot.refusal("restore", namespace=NAMESPACE, key="k")).context == {"field": "version"}
    await bot.restore("k", version=1)
    memory = await bot.memory("k")
    assert (memory["value"], memory["version"]) == ("first", 5)
    refused = await bot.refusal("restore", namespace=NAMESPACE, key="k", version=3)
    assert (refused.code, refused.context["version"]) == (40401, 3)
    assert (await bot.refusal("restore", namespace=NAMESPACE, key="k", version=9)).code == 40401
    assert (await bot.refusal("restore", namespace=NAMESPACE, key="none")).code == 40401
    assert [version["operation"] for version in await bot.versions("k")] == [
        "put",
        "put",
        "delete",
        "restore",
        "restore",
    ]


async def test_every_write_can_expect_a_version(bot: Agent) -> None:
    place: Body = {"namespace": NAMESPACE, "key": "k"}
    conflict = await bot.refusal("put", place, value=1, expect_version=1)
    assert (conflict.code, conflict.context) == (40902, {"expected": 1, "actual": 0})
    await bot.put("k", {}, expect_version=0)
    conflict = await bot.refusal("put", place, value=1, expect_version=0)
    assert (conflict.code, conflict.context) == (40902, {"expected": 0, "actual": 1})
    assert conflict.error["detail"] == "memory 'k' of 'user:alice' is at version 1, 0 was expected"
    await bot.put("k", {}, expect_version=1)
    others: list[tuple[str, Body]] = [("patch", {"patch": {}}), ("delete", {}), ("restore", {"version": 1})]
    for operation, fields in others:
        conflict = await bot.refusal(operation, place, expect_version=1, **fields)
        assert (conflict.code, conflict.context) == (40902, {"expected": 1, "actual": 2}), operation
    await bot.patch("k", {"a": 1}, expect_version=2)
    await bot.delete("k", expect_version=3)
    await bot.restore("k", expect_version=4)
    await bot.delete("k")
    await bot.put("k", 1, expect_version=6)
    await bot.delete("k")
    await bot.put("k", 1, expect_version=0)


async def test_of_many_who_expect_the_same_version_one_succeeds(bot: Agent) -> None:
    await bot.put("k", 0)
    results = await asyncio.gather(*(bot.put("k", n, expect_version=1) for n in range(20)), return_exceptions=True)
    assert sum(not isinstance(result, BaseException) for result in results) == 1
    assert (await bot.memory("k"))["version"] == 2


async def test_a_patch_is_applied_by_the_worker(bot: Agent) -> None:
    await bot.put("k", {"a": {"b": 1, "c": [1]}, "d": 2})
    await bot.patch("k", {"a": {"b": None, "c": [2]}, "e": {"f": None, "g": 3}})
    assert (await bot.memory("k"))["value"] == {"a": {"c": [2]}, "d": 2, "e": {"g": 3}}
    await bot.patch("k", None)
    assert (await bot.memory("k"))["value"] is None
    await bot.patch("k", {"a": 1})
    assert (await bot.memory("k"))["value"] == {"a": 1}


async def test_a_repeated_request_answers_the_first_outcome(bot: Agent) -> None:
    first = await bot.put("k", {"n": 1}, id=bot.id("m1"))
    patched = await bot.patch("k", {"n": 2}, id=bot.id("m2"))
    deleted = await bot.delete("k", id=bot.id("m3"))
    restored = await bot.restore("k", id=bot.id("m4"))
    again = [
        await bot.put("k", {"n": 1}, id=bot.id("m1")),
        await bot.patch("k", {"n": 2}, id=bot.id("m2")),
        await bot.delete("k", id=bot.id("m3")),
        await bot.restore("k", id=bot.id("m4")),
    ]
    assert again == [{**body, "duplicate": True} for body in (first, patched, deleted, restored)]
    assert [body["version"] for body in again] == [1, 2, 3, 4]
    assert again[0]["created"]
    versions = await bot.versions("k")
    assert [version["request_id"] for version in versions] == [bot.id(f"m{n}") for n in (1, 2, 3, 4)]


async def test_an_id_is_an_agents_own_and_an_operations_own(bot: Agent) -> None:
    await bot.put("k", 1, id="m1")
    assert (await bot.called("other").put("k", 2, id="m1"))["version"] == 2
    assert (await bot.patch("k", 3, id="m1"))["version"] == 3
    refused = await bot.refusal("put", namespace=NAMESPACE, key="other", value=4, id="m1")
    assert (refused.code, refused.context) == (40906, {"field": "Nats-Msg-Id"})


async def test_a_refused_write_may_be_sent_again_under_its_id(bot: Agent) -> None:
    assert (await bot.refusal("patch", id="m1", namespace=NAMESPACE, key="k", patch={"a": 1})).code == 40401
    await bot.put("k", {})
    assert (await bot.patch("k", {"a": 1}, id="m1"))["duplicate"] is False


async def test_an_expired_memory_is_as_good_as_deleted(bot: Agent) -> None:
    await bot.put("k", "old", expires_at=in_time(0.5), metadata={"m": 1})

    async def is_gone() -> bool:
        found = await bot.ask("get_many", keys=[{"namespace": NAMESPACE, "key": "k"}])
        return bool(found["missing"])

    await eventually(is_gone, "it expired")
    assert (await bot.refusal("patch", namespace=NAMESPACE, key="k", patch={})).code == 40401
    assert (await bot.refusal("delete", namespace=NAMESPACE, key="k")).code == 40401
    again = await bot.put("k", "new", expect_version=0)
    assert (again["created"], again["version"] > 1) == (True, True)
    memory = await bot.memory("k")
    assert (memory["value"], memory["metadata"], memory["expires_at"]) == ("new", {}, None)


async def test_what_expired_can_be_restored_for_good(bot: Agent) -> None:
    await bot.put("k", "old", expires_at=in_time(0.5))

    async def is_restored() -> bool:
        try:
            await bot.restore("k")
        except Exception:
            return False
        return True

    await eventually(is_restored, "it expired, and is restored")
    memory = await bot.memory("k")
    assert (memory["value"], memory["expires_at"]) == ("old", None)


async def test_times_that_make_no_sense_are_refused(bot: Agent) -> None:
    place: Body = {"namespace": NAMESPACE, "key": "k", "value": 1}
    refused = await bot.refusal("put", place, valid_from="2026-01-02T00:00:00Z", valid_to="2026-01-02T01:00:00+01:00")
    assert (refused.code, refused.context) == (40001, {"field": "valid_to"})
    assert "2026-01-02T00:00:00.000000Z" in refused.error["detail"]
    refused = await bot.refusal("put", place, expires_at="2026-01-01T00:00:00Z")
    assert (refused.code, refused.context) == (40001, {"field": "expires_at"})
    assert "2026-01-01T00:00:00.000000Z" in refused.error["detail"]
    assert await bot.told() == []


ANY_JSON: list[Any] = [None, False, 0, -(2**63), 2**63 - 1, 0.1, 1e308, "", "\u0000\u2028 🐝"]
NESTED: list[Any] = [[], {}, [[[]]], {"": {"$set": {".": None}}}]


@pytest.mark.parametrize("value", ANY_JSON + NESTED)
async def test_any_json_is_a_value(bot: Agent, value: Any) -> None:
    await bot.put("k", value, metadata={"": value, "$where": value})
    memory = await bot.memory("k")
    assert (memory["value"], memory["metadata"]) == (value, {"": value, "$where": value})
    assert type(memory["value"]) is type(value)


async def test_the_largest_value_is_kept_and_a_larger_one_refused(bot: Agent) -> None:
    text = "é" * ((MEMORY_VALUE_BYTES - 2) // 2)
    metadata = {"m": "x" * (VALUE_BYTES - len('{"m":""}'))}
    await bot.put("k", text, metadata=metadata)
    memory = await bot.memory("k")
    assert (memory["value"], memory["metadata"]) == (text, metadata)
    place: Body = {"namespace": NAMESPACE, "key": "k"}
    refused = await bot.refusal("put", place, value=text + "a")
    assert (refused.code, refused.context) == (
        41301,
        {"field": "value", "limit": MEMORY_VALUE_BYTES, "actual": MEMORY_VALUE_BYTES + 1},
    )
    refused = await bot.refusal("put", place, value=1, metadata={"m": metadata["m"] + "x"})
    assert (refused.code, refused.context["field"], refused.context["actual"]) == (41301, "metadata", VALUE_BYTES + 1)
    await bot.put("k", {"a": "x" * (MEMORY_VALUE_BYTES // 2)})
    refused = await bot.refusal("patch", place, patch={"b": "x" * (MEMORY_VALUE_BYTES // 2)})
    assert (refused.code, refused.context["field"], refused.context["limit"]) == (41301, "patch", MEMORY_VALUE_BYTES)
    assert refused.context["actual"] > MEMORY_VALUE_BYTES
    assert (await bot.memory("k"))["version"] == 2


async def test_each_write_is_told_once_with_all_that_it_says(bot: Agent) -> None:
    await bot.put("k ey", {"a": 1}, id=bot.id("m1"), **FIELDS)
    await bot.patch("k ey", {"b": 2})
    await bot.delete("k ey")
    await bot.restore("k ey")
    told = await bot.feed()
    assert [(change.what, change.body["version"], change.body["previous_version"]) for change in told] == [
        ("memory.put", 1, None),
        ("memory.put", 2, 1),
        ("memory.deleted", 3, 2),
        ("memory.restored", 4, 3),
    ]
    assert {change.subject for change in told} == {f"hive.chg.{bot.tenant}.memory.user.alice.%k.k%20ey"}
    first = told[0].body
    assert (first["namespace"], first["key"], first["actor"], first["cause"]) == (
        NAMESPACE,
        "k ey",
        "bot",
        bot.id("m1"),
    )
    newest = await bot.memory("k ey")
    assert told[3].body["value"] == newest
    assert told[2].body["value"]["value"] is None
    assert told[2].body["value"]["deleted"] is True


async def test_a_change_that_would_be_too_large_says_so(bot: Agent) -> None:
    await bot.put("k", "x" * 70_000)
    [change] = await bot.feed()
    assert (change.body["value_omitted"], change.body["value"]) == (True, None)


async def test_tenants_and_namespaces_are_apart(bot: Agent, deployment: Any) -> None:
    other = deployment.agent()
    await bot.put("k", 1)
    await bot.ask("put", namespace="user:alicex", key="k", value=2)
    await bot.ask("put", namespace="user:alice:k", key="k", value=3)
    assert (await other.refusal("get", namespace=NAMESPACE, key="k")).code == 40401
    assert (await bot.memory("k"))["value"] == 1
    assert (await bot.ask("get", namespace="user:alicex", key="k"))["value"] == 2
    assert (await bot.ask("get", namespace="user:alice:k", key="k"))["value"] == 3


async def test_versions_of_a_key_are_a_chain_in_time(bot: Agent) -> None:
    """Their times increase even for the fastest writes."""
    await asyncio.gather(*(bot.put("k", n) for n in range(100)))
    versions = await bot.versions("k")
    assert [version["version"] for version in versions] == list(range(1, 101))
    times = [version["updated_at"] for version in versions]
    assert times == sorted(set(times))
    assert {version["created_at"] for version in versions} == {times[0]}
    assert sorted(version["value"] for version in versions) == list(range(100))


async def test_what_is_answered_is_no_more_than_the_contract_says(bot: Agent) -> None:
    data = orjson.dumps({"namespace": NAMESPACE, "key": "k", "value": 1})
    assert set(await bot.send("put", data)) == {"namespace", "key", "version", "created", "duplicate"}
