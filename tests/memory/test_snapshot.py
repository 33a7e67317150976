"""A snapshot shows a namespace at one moment, however many pages it takes and whatever is written meanwhile."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from hivemem_contracts.identifiers import format_time
from hivemem_runtime.ledger.cursor import decode_cursor, encode_cursor

from .exact import exactly
from .hive import LIFE_SECONDS, NAMESPACE, Agent, Body, eventually

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def snapshot(bot: Agent, namespace: str = NAMESPACE, **fields: Any) -> list[Body]:
    return await bot.pages("snapshot", namespace=namespace, **fields)


async def put_many(bot: Agent, count: int, value: Any = None, namespace: str = NAMESPACE) -> list[str]:
    keys = [f"k{number:05}" for number in range(count)]
    for start in range(0, count, 1_000):
        puts = [{"namespace": namespace, "key": key, "value": value} for key in keys[start : start + 1_000]]
        await bot.ask("put_batch", puts=puts)
    return keys


async def test_a_namespace_is_itself_and_what_is_below_it(bot: Agent) -> None:
    for namespace in ("user:alice", "user:alice:x", "user:alice:x:y", "user:alicex", "user:alic", "project:alice"):
        await bot.ask("put", namespace=namespace, key="k", value=namespace)
    answer = await exactly(bot, "snapshot", namespace=NAMESPACE)
    assert [memory["value"] for memory in answer["items"]] == ["user:alice", "user:alice:x", "user:alice:x:y"]
    assert answer["items"][0] == await bot.memory("k")
    assert (answer["namespace"], answer["cursor"]) == (NAMESPACE, None)
    assert len(await snapshot(bot, "user")) == 5


async def test_what_was_deleted_or_expired_then_is_left_out(bot: Agent) -> None:
    expires_at = datetime.now(UTC) + timedelta(seconds=LIFE_SECONDS)
    await bot.put("gone", 1)
    await bot.delete("gone")
    await bot.put("ends", 1, expires_at=format_time(expires_at))
    await bot.put("stays", 1)
    before = await exactly(bot, "snapshot", namespace=NAMESPACE)
    assert [memory["key"] for memory in before["items"]] == ["ends", "stays"]
    await eventually(lambda: datetime.now(UTC) > expires_at, "it has expired")
    assert [memory["key"] for memory in await snapshot(bot)] == ["stays"]
    assert await snapshot(bot, as_of=before["as_of"]) == before["items"]
    assert [memory["key"] for memory in await snapshot(bot, as_of=format_time(expires_at))] == ["stays"]


async def test_all_pages_are_of_the_moment_of_the_first(bot: Agent) -> None:
    for key in ("a", "b", "c", "d", "e"):
        await bot.put(key, "then")
    first = await exactly(bot, "snapshot", namespace=NAMESPACE, limit=2)
    await bot.put("c", "now")
    await bot.put("d", "now")
    await bot.delete("d")
    await bot.put("dd", "now")
    await bot.delete("e")
    rest = await exactly(bot, "snapshot", namespace=NAMESPACE, limit=5, cursor=first["cursor"])
    assert [(memory["key"], memory["value"]) for memory in first["items"] + rest["items"]] == [
        (key, "then") for key in ("a", "b", "c", "d", "e")
    ]
    assert (rest["as_of"], rest["cursor"]) == (first["as_of"], None)
    assert await snapshot(bot, as_of=first["as_of"]) == first["items"] + rest["items"]
    assert [memory["key"] for memory in await snapshot(bot)] == ["a", "b", "c", "dd"]


async def test_what_is_written_together_is_seen_together(bot: Agent) -> None:
    """A snapshot of now may arrive during a commit that has the same time and is not visible yet."""
    keys = ("a", "m", "z")
    done = asyncio.Event()

    async def write() -> None:
        for number in range(150):
            await bot.ask("put_batch", puts=[{"namespace": NAMESPACE, "key": key, "value": number} for key in keys])
        done.set()

    writing = asyncio.gather(write(), write())
    taken = 0
    while not done.is_set():
        found = [memory["value"] for memory in await snapshot(bot, limit=1)]
        assert len(set(found)) <= 1, found
        taken += 1
    await writing
    assert taken


async def test_a_moment_to_come_is_now_for_all_pages(bot: Agent) -> None:
    for key in ("a", "b", "c"):
        await bot.put(key, "then")
    later = "2999-01-01T00:00:00.000000Z"
    page = await exactly(bot, "snapshot", namespace=NAMESPACE, as_of=later, limit=1)
    assert page["as_of"] < later
    await bot.put("c", "now")
    rest = await bot.ask("snapshot", namespace=NAMESPACE, as_of=later, cursor=page["cursor"])
    assert [memory["value"] for memory in rest["items"]] == ["then", "then"]


async def test_before_everything_there_was_nothing(bot: Agent) -> None:
    await bot.put("k", 1)
    assert await snapshot(bot, as_of="1970-01-01T00:00:00Z") == []
    assert await snapshot(bot, as_of="0001-01-01T00:00:00Z") == []
    assert await snapshot(bot, "user:nobody") == []


async def test_many_at_once(bot: Agent) -> None:
    keys = await put_many(bot, 2_500, "then")
    page = await bot.ask("snapshot", namespace=NAMESPACE, limit=1_000)
    await put_many(bot, 2_500, "now")
    found = page["items"]
    while page["cursor"] is not None:
        page = await bot.ask("snapshot", namespace=NAMESPACE, limit=1_000, cursor=page["cursor"])
        found += page["items"]
    assert [memory["key"] for memory in found] == keys
    assert {memory["value"] for memory in found} == {"then"}


async def test_pages_go_on_past_what_was_not_there_yet(bot: Agent) -> None:
    await bot.put("zz", 1)
    at = (await bot.memory("zz"))["updated_at"]
    await put_many(bot, 2_500)
    first = await bot.ask("snapshot", namespace=NAMESPACE, as_of=at)
    assert first["items"] == []
    assert first["cursor"] is not None
    assert [memory["key"] for memory in await snapshot(bot, as_of=at)] == ["zz"]


async def test_large_memories_come_in_shorter_pages(bot: Agent) -> None:
    for number in range(5):
        await bot.put(f"k{number}", "x" * 300_000)
    at = (await bot.memory("k4"))["updated_at"]
    for number in range(5):
        await bot.put(f"k{number}", "y" * 400_000)
    assert [memory["value"][0] for memory in await snapshot(bot, as_of=at)] == ["x"] * 5
    page = await bot.ask("snapshot", namespace=NAMESPACE)
    assert len(page["items"]) == 1
    assert [memory["value"][0] for memory in await snapshot(bot)] == ["y"] * 5


async def test_a_cursor_belongs_to_its_namespace_and_its_moment(bot: Agent) -> None:
    for key in ("a", "b"):
        await bot.put(key, 1)
        await bot.ask("put", namespace="user:bob", key=key, value=1)
    page = await bot.ask("snapshot", namespace=NAMESPACE, limit=1)
    export = (await bot.ask("export", prefix=NAMESPACE, limit=1))["cursor"]
    wrong: list[Body] = [
        {"namespace": "user:bob", "cursor": page["cursor"]},
        {"namespace": "user", "cursor": page["cursor"]},
        {"namespace": NAMESPACE, "cursor": page["cursor"], "as_of": "2026-01-01T00:00:00Z"},
        {"namespace": NAMESPACE, "cursor": export},
        {"namespace": NAMESPACE, "cursor": "AAAA"},
    ]
    for body in wrong:
        refused = await bot.refusal("snapshot", body)
        assert (refused.code, refused.context["field"]) == (40001, "cursor"), body
    same = await bot.ask("snapshot", namespace=NAMESPACE, cursor=page["cursor"], as_of=page["as_of"])
    assert [memory["key"] for memory in same["items"]] == ["b"]


async def test_a_forged_place_does_no_harm(bot: Agent) -> None:
    for namespace in ("user:alic", NAMESPACE, "user:alicex"):
        await bot.ask("put", namespace=namespace, key="a", value=1)
        await bot.ask("put", namespace=namespace, key="b", value=1)
    own = (await bot.ask("snapshot", namespace=NAMESPACE, limit=1))["cursor"]
    name, mark, asked, at, _, average = decode_cursor(own, (str, str, int, int, str, int))
    for place, keys in (("", ["a", "b"]), ("a", ["a", "b"]), ("z", [])):
        page = await bot.ask(
            "snapshot", namespace=NAMESPACE, cursor=encode_cursor(name, mark, asked, at, place, average)
        )
        assert [memory["key"] for memory in page["items"]] == keys
    for moment in (-(2**62), 2**62):
        cursor = encode_cursor(name, mark, asked, moment, "", average)
        refused = await bot.refusal("snapshot", namespace=NAMESPACE, cursor=cursor)
        assert (refused.code, refused.context["field"]) == (40001, "cursor")
