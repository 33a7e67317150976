"""Reading memories by their keys: now, at a version, as of a moment, many at once."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from hivemem_contracts.identifiers import format_time
from hivemem_contracts.limits import REPLY_BYTES
from hivemem_memory.endpoints import reads

from .exact import exactly
from .hive import LIFE_SECONDS, NAMESPACE, Agent, Body, source

pytestmark = pytest.mark.asyncio(loop_scope="session")

FULL: Body = {
    "memory_type": "episodic",
    "metadata": {"text": "née", "n": [1.5, None]},
    "importance": 0.25,
    "valid_from": "2020-01-01T00:00:00.5Z",
    "valid_to": "2999-01-01T02:00:00+02:00",
    "expires_at": "2999-01-01T00:00:00.000001Z",
    "source": source(session_id="s", event_id="e"),
    "index": ["a text"],
}


def moved(at: str, microseconds: int) -> str:
    return format_time(datetime.fromisoformat(at) + timedelta(microseconds=microseconds))


def soon(seconds: float) -> str:
    return format_time(datetime.now(UTC) + timedelta(seconds=seconds))


async def get(bot: Agent, key: str = "k", **fields: Any) -> Body:
    return await exactly(bot, "get", namespace=NAMESPACE, key=key, **fields)


async def no(bot: Agent, key: str = "k", **fields: Any) -> Body:
    """Check that `get` finds nothing, and return the context of the refusal."""
    refused = await bot.refusal("get", namespace=NAMESPACE, key=key, **fields)
    assert refused.code == 40401
    return refused.context


async def test_a_new_memory_has_what_it_was_given_and_who_made_it(bot: Agent) -> None:
    await bot.put("k", {"a": [1, 2.5, "x", None, True]}, **FULL)
    found = await get(bot)
    assert found["value"] == {"a": [1, 2.5, "x", None, True]}
    assert {name: found[name] for name in FULL} == FULL | {
        "valid_from": "2020-01-01T00:00:00.500000Z",
        "valid_to": "2999-01-01T00:00:00.000000Z",
    }
    assert (found["version"], found["deleted"], found["copied_from"]) == (1, False, None)
    assert (found["created_by"], found["updated_by"]) == ("bot", "bot")
    assert found["created_at"] == found["updated_at"]


async def test_a_memory_of_nothing_but_a_value(bot: Agent) -> None:
    values: list[Any] = [None, False, 0, "", [], {}, 2**63 - 1, -(2**63), 1e300]
    for number, value in enumerate(values):
        await bot.put(f"k{number}", value)
        found = await get(bot, f"k{number}")
        assert found["value"] == value
        assert (found["memory_type"], found["metadata"], found["importance"]) == ("semantic", {}, None)


async def test_who_changed_it_and_when_moves_on_and_who_made_it_stays(bot: Agent) -> None:
    await bot.put("k", 1)
    first = await get(bot)
    await bot.called("eve").put("k", 2)
    second = await get(bot)
    assert (second["version"], second["created_by"], second["updated_by"]) == (2, "bot", "eve")
    assert second["created_at"] == first["created_at"]
    assert second["updated_at"] > first["updated_at"]


async def test_the_same_content_has_the_same_digest(bot: Agent) -> None:
    digests: list[str] = []
    for value in (1, 2, 1):
        await bot.put("k", value)
        digests.append((await get(bot))["digest"])
    assert digests[0] == digests[2] != digests[1]


async def test_every_version_stays_readable(bot: Agent) -> None:
    seen: list[Body] = []
    for value in range(5):
        await bot.put("k", {"v": value})
        seen.append(await get(bot))
    await bot.delete("k")
    assert [await get(bot, version=version) for version in range(1, 6)] == seen
    assert await no(bot, version=7) == {"namespace": NAMESPACE, "key": "k", "version": 7}


async def test_each_moment_has_the_version_of_then(bot: Agent) -> None:
    seen: list[Body] = []
    for value in range(5):
        await bot.put("k", value)
        seen.append(await get(bot))
    for number, memory in enumerate(seen):
        at = memory["updated_at"]
        assert await get(bot, as_of=at) == memory
        assert await get(bot, as_of=moved(at, 1)) == memory
        if number:
            assert await get(bot, as_of=moved(at, -1)) == seen[number - 1]
    await no(bot, as_of=moved(seen[0]["updated_at"], -1))
    await no(bot, as_of="0001-01-01T00:00:00Z")


async def test_a_moment_to_come_is_now(bot: Agent) -> None:
    await bot.put("k", 1, expires_at="2500-01-01T00:00:00Z")
    assert (await get(bot, as_of="2600-01-01T00:00:00Z"))["value"] == 1


async def test_what_was_written_by_a_faster_clock_is_there_at_its_own_moment(
    bot: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    await bot.put("k", 1)
    memory = await get(bot)
    monkeypatch.setattr(reads, "now_microseconds", lambda: 0)
    assert await get(bot, as_of=memory["updated_at"]) == memory


async def test_a_deleted_memory_is_not_found_unless_it_is_asked_for(bot: Agent) -> None:
    await bot.put("k", 1, **FULL)
    living = await get(bot)
    await bot.delete("k")
    assert await no(bot) == {"namespace": NAMESPACE, "key": "k"}
    tombstone = await get(bot, include_deleted=True)
    assert (tombstone["version"], tombstone["deleted"], tombstone["value"]) == (2, True, None)
    assert tombstone["metadata"] == FULL["metadata"]
    assert await get(bot, include_deleted=True, version=2) == tombstone
    assert await get(bot, include_deleted=True, as_of=tombstone["updated_at"]) == tombstone
    await no(bot, version=2)
    await no(bot, as_of=tombstone["updated_at"])
    assert await get(bot, as_of=moved(tombstone["updated_at"], -1)) == living


async def test_an_expired_memory_is_not_found_at_once(bot: Agent) -> None:
    expires_at = soon(LIFE_SECONDS)
    await bot.put("k", 1, expires_at=expires_at)
    living = await get(bot)
    while soon(0) <= expires_at:
        await bot.memory("k", include_deleted=True)
    await no(bot)
    ended = await get(bot, include_deleted=True)
    assert (ended["deleted"], ended["value"]) == (True, None)
    assert await get(bot, version=1) == living
    assert await get(bot, as_of=moved(expires_at, -1)) == living
    await no(bot, as_of=expires_at)


async def test_what_was_never_there_is_not_found(bot: Agent) -> None:
    await bot.put("k", 1)
    for namespace, key in ((NAMESPACE, "other"), (NAMESPACE + ":x", "k"), ("user:alic", "k"), ("user:alicex", "k")):
        refused = await bot.refusal("get", namespace=namespace, key=key, include_deleted=True)
        assert (refused.code, refused.context) == (40401, {"namespace": namespace, "key": key})
    assert (await bot.called("eve").memory("k"))["value"] == 1


async def test_tenants_do_not_see_each_other(bot: Agent) -> None:
    await bot.put("k", 1)
    stranger = Agent(bot.client, bot.worker, bot.tenant + "x", bot.name)
    await no(stranger, include_deleted=True)
    assert await stranger.keys("user") == []
    assert (await stranger.ask("count", prefix="user"))["count"] == 0


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"version": 0}, "version"),
        ({"version": "1"}, "version"),
        ({"version": 1, "as_of": "2026-01-01T00:00:00Z"}, "as_of"),
        ({"as_of": "2026-01-01T00:00:00"}, "as_of"),
        ({"as_of": 5}, "as_of"),
        ({"namespace": "alice"}, "namespace"),
        ({"key": " k"}, "key"),
        ({"include_deleted": 1}, "include_deleted"),
        ({"when": 1}, "when"),
    ],
)
async def test_what_cannot_be_asked_for_is_refused_by_name(bot: Agent, fields: Body, field: str) -> None:
    refused = await bot.refusal("get", {"namespace": NAMESPACE, "key": "k", **fields})
    assert (refused.code, refused.context["field"]) == (40001, field)


def named(*keys: str) -> list[Body]:
    return [{"namespace": NAMESPACE, "key": key} for key in keys]


async def test_many_at_once_in_the_order_of_the_request(bot: Agent) -> None:
    for key in ("a", "b", "c"):
        await bot.put(key, key)
    await bot.delete("b")
    answer = await exactly(bot, "get_many", keys=named("c", "b", "x", "a", "c"))
    assert answer["items"] == [await bot.memory(key) for key in ("c", "a", "c")]
    assert answer["missing"] == named("b", "x")
    assert answer["left"] == []


async def test_many_from_several_namespaces(bot: Agent) -> None:
    for namespace in (NAMESPACE, "project:p"):
        await bot.ask("put", namespace=namespace, key="k", value=namespace)
    answer = await bot.ask("get_many", keys=[{"namespace": "project:p", "key": "k"}, *named("k")])
    assert [memory["value"] for memory in answer["items"]] == ["project:p", NAMESPACE]


async def test_a_thousand_at_once(bot: Agent) -> None:
    keys = [f"k{number:04}" for number in range(1_000)]
    await bot.ask("put_batch", puts=[{"namespace": NAMESPACE, "key": key, "value": key} for key in keys])
    answer = await bot.ask("get_many", keys=named(*keys))
    assert [memory["value"] for memory in answer["items"]] == keys
    refused = await bot.refusal("get_many", keys=named(*keys, "more"))
    assert refused.code == 40001


async def test_what_an_answer_has_no_room_for_is_left(bot: Agent) -> None:
    keys = [f"k{number}" for number in range(5)]
    for key in keys:
        await bot.put(key, key + "x" * 300_000)
    asked = named("x", *keys)
    found: list[str] = []
    for _ in keys:
        answer = await exactly(bot, "get_many", keys=asked)
        assert sum(len(memory["value"]) for memory in answer["items"]) <= REPLY_BYTES
        found += [memory["key"] for memory in answer["items"]]
        asked = answer["left"]
        if not asked:
            break
    assert found == keys


async def test_the_largest_memory_can_be_read(bot: Agent) -> None:
    await bot.put("k", "x" * (512 * 1024 - 2), metadata={"m": "y" * (256 * 1024 - 8)})
    assert len((await get(bot))["value"]) == 512 * 1024 - 2
    answer = await bot.ask("get_many", keys=named("k", "k"))
    assert (len(answer["items"]), answer["left"]) == (1, named("k"))
    (line,) = (await bot.ask("history", namespace=NAMESPACE, key="k", diff=True))["items"]
    assert (line["diff"], line["diff_omitted"]) == (None, True)
