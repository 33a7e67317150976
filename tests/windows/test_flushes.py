"""Flushing: what each strategy takes, summaries, and that nothing is lost or taken twice."""

import asyncio
import json
from pathlib import Path

import pytest

from hivemem_runtime.ledger.places import place_of
from hivemem_testing.agent import connect
from hivemem_testing.servers import packaged_nats
from hivemem_testing.waiting import eventually
from hivemem_windows.entities.contents import CONTENT
from hivemem_windows.worker import WindowsSettings, build

from ..vectors.embedders.endpoint import Answer, Endpoint
from .conftest import CHAT, Writer

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def flushed(writer: Writer) -> None:
    async def idle() -> bool:
        health = await writer.ask("health", CHAT)
        return bool(health["flush"]["state"] == "idle" and health["flush"]["last_at"] is not None)

    await eventually(idle, "the window is flushed")


@pytest.mark.parametrize(
    ("strategy", "left"),
    [
        ("fifo", ["m5", "m6", "m7", "m8", "m9"]),
        ("token_threshold", ["m5", "m6", "m7", "m8", "m9"]),
        ("priority", ["m0", "m2", "m4", "m6", "m8"]),
        ("message_count", []),
        ("time", []),
        ("hybrid_summary", ["m6", "m7", "m8", "m9"]),
    ],
)
async def test_a_strategy_takes_its_messages(writer: Writer, strategy: str, left: list[str]) -> None:
    every = {"every_messages": 1_000, "every_seconds": 3_600}
    await writer.declare(type="buffer", max_tokens=100_000, max_messages=100, flushing={"strategy": strategy, **every})
    for number in range(10):
        await writer.say(f"m{number}", importance=0.7 if number % 2 == 0 else 0.2)
    done = await writer.ask("flush", CHAT, id=writer.id("f"))
    assert await writer.contents() == left
    assert (done["strategy"], done["before"]["messages"], done["after"]["messages"]) == (strategy, 10, len(left))
    assert (done["evicted"], done["summarized"]) == (10 - len(left), 6 if strategy == "hybrid_summary" else 0)
    read = await writer.ask("read", CHAT)
    assert read["tokens"] == done["after"]["tokens"]
    if strategy == "hybrid_summary":
        assert read["summary"]["text"].startswith("Summary of 6 earlier messages:\nuser: m0")
        assert read["summary"]["messages"] == 6
    assert sorted([*await writer.originals(), *left]) == [f"m{number}" for number in range(10)]
    assert await writer.ask("flush", CHAT, id=writer.id("f")) == {**done, "duplicate": True}
    told = [change.body["value"] for change in await writer.feed("window.>") if change.what == "window.flushed"]
    assert [value["flush_id"] for value in told] == [done["flush_id"]]
    stats = await writer.ask("stats", CHAT)
    assert (stats["flushes"], stats["flushed"]) == ({strategy: {"done": 1}}, 10 - len(left))


@pytest.mark.parametrize("policy", ["lru", "lfu"])
async def test_what_is_read_stays(writer: Writer, policy: str) -> None:
    await writer.declare(max_messages=3, eviction=policy, flushing={"strategy": policy, "threshold": 1.0})
    await writer.say("read", share="long_term")
    await writer.say("not read")
    assert await writer.contents(shares=["long_term"]) == ["read"]

    async def written() -> bool:
        head = await writer.ledger.head(CONTENT, writer.tenant, place_of("chat", "k1"))
        return bool(head is not None and head.value is not None and head.value.used)

    await eventually(written, "the use is written")
    third = await writer.say("newest")
    assert third["flush"] == "queued"
    await flushed(writer)
    # A flush of three messages leaves the newest use, or the most frequent one.
    assert await writer.contents() == ["newest" if policy == "lru" else "read"]


async def test_a_threshold_flushes_in_the_background(writer: Writer) -> None:
    await writer.declare(flushing={"strategy": "fifo", "threshold": 0.8})
    answers = [await writer.say(str(number)) for number in range(8)]
    assert [answer["flush"] for answer in answers] == ["none"] * 7 + ["queued"]
    await flushed(writer)
    assert await writer.contents() == ["4", "5", "6", "7"]


async def test_a_count_and_a_time_flush_in_the_background(writer: Writer) -> None:
    await writer.declare(flushing={"strategy": "message_count", "every_messages": 3, "keep_last": 1})
    for text in "abc":
        await writer.say(text)
    await flushed(writer)
    assert await writer.contents() == ["c"]
    await writer.declare(id="timed", flushing={"strategy": "time", "every_seconds": 1})
    timed = {"resource": "timed", "key": "k"}
    await writer.say("a", here=timed)

    async def empty() -> bool:
        return await writer.contents(timed) == []

    await eventually(empty, "the time has come")


async def test_a_flush_keeps_the_first_and_the_last_and_never_splits_a_call(writer: Writer) -> None:
    await writer.declare(max_messages=100, flushing={"strategy": "hybrid_summary", "keep_first": 1, "keep_last": 2})
    await writer.say("rules", "system")
    await writer.say("first")
    await writer.say("middle " * 50)
    await writer.say(None, "assistant", tool_calls=[{"id": "c", "function": {"name": "look"}}])
    await writer.say("found", "tool", tool_call_id="c")
    await writer.say("last")
    done = await writer.ask("flush", CHAT)
    assert await writer.contents() == ["rules", "first", None, "found", "last"]
    assert (done["summarized"], done["evicted"]) == (1, 1)
    summary = (await writer.ask("read", CHAT))["summary"]
    assert summary["text"].startswith("user: middle middle")
    assert (summary["messages"], summary["by"]) == (1, "rule")
    message = (await writer.ask("originals", CHAT))["items"][0]
    await writer.ask("delete", CHAT, message_id=message["message_id"])
    assert (await writer.ask("read", CHAT))["summary"] is None, "it may say what the message said"


async def test_without_a_model_the_rule_makes_the_summary(writer: Writer) -> None:
    await writer.declare(flushing={"strategy": "model_summary", "keep_last": 1})
    for text in "abc":
        await writer.say(text)
    done = await writer.ask("flush", CHAT)
    assert (done["fallback"], done["summarized"]) == ("this fleet has no model for summaries", 2)
    health = await writer.ask("health", CHAT)
    assert (health["healthy"], health["flush"]["failures"], health["flush"]["breaker"]) == (False, 1, "none")


async def test_flushes_lose_nothing_under_appends(writer: Writer) -> None:
    """Two workers flush a window that several agents write to all the time."""
    await writer.declare(
        type="token", max_tokens=400, max_messages=None, flushing={"strategy": "hybrid_summary", "threshold": 0.5}
    )

    async def write(name: str) -> None:
        mine = writer.called(name)
        for number in range(25):
            await mine.say(f"{name}-{number}")
            if number % 10 == 9:
                await mine.ask("flush", CHAT)
            read = await mine.ask("read", CHAT)
            assert read["tokens"] <= 400

    await asyncio.gather(*(write(f"bot{number}") for number in range(6)))
    await flushed(writer)
    everything = [*await writer.originals(), *await writer.contents()]
    assert sorted(everything) == sorted(f"bot{bot}-{number}" for bot in range(6) for number in range(25))
    told = [change.body["value"] for change in await writer.feed("window.>") if change.what == "window.flushed"]
    ids = [value["flush_id"] for value in told]
    assert len(ids) == len(set(ids)), "each flush is applied once"
    stats = await writer.ask("stats", CHAT)
    assert (stats["appended"], stats["flushed"] + stats["evicted"] + stats["messages"]) == (150, 150)


async def test_a_model_makes_the_summary_until_it_fails(tmp_path: Path) -> None:
    spoken = {"choices": [{"message": {"role": "assistant", "content": "They greet each other."}}]}
    with packaged_nats(tmp_path / "nats") as nats:
        async with Endpoint(Answer(body=json.dumps(spoken).encode()), Answer(401)) as endpoint:
            worker = build(
                WindowsSettings(nats_url=nats.url, data=tmp_path, summary_url=endpoint.url, summary_model="some-model")
            )
            await worker.start()
            client = await connect(nats.url)
            writer = Writer(client, worker, "acme")
            await writer.declare(max_messages=100, flushing={"strategy": "model_summary", "keep_last": 0})
            for text, by in (("hello " * 20, "model"), ("good day " * 20, "rule")):
                await writer.say(text)
                done = await writer.ask("flush", CHAT)
                assert (done["fallback"] is None, done["summarized"]) == (by == "model", 1)
                summary = (await writer.ask("read", CHAT))["summary"]
                assert summary["by"] == by
                assert "They greet each other." in summary["text"]
            health = await writer.ask("health", CHAT)
            assert (health["flush"]["failures"], health["flush"]["breaker"]) == (1, "closed")
            await client.close()
            await worker.stop()
