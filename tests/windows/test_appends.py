"""Appends and reads: the order, the limits, tool calls, and bad requests."""

import asyncio
from typing import Any

import pytest

from hivemem_testing.agent import Body
from hivemem_testing.waiting import eventually

from .conftest import CHAT, Writer

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_messages_are_read_in_order_and_the_oldest_leave(writer: Writer) -> None:
    await writer.declare(max_messages=3)
    first = await writer.say("one")
    assert (first["key"], first["sequence"], first["messages"], first["evicted"]) == ("k1", 1, 1, [])
    for content in ("two", "three"):
        await writer.say(content)
    fourth = await writer.say({"text": "four"}, importance=0.25, metadata={"a": 1})
    assert (fourth["sequence"], fourth["messages"], fourth["evicted"]) == (4, 3, [1])
    read = await writer.ask("read", CHAT)
    assert [message["sequence"] for message in read["messages"]] == [2, 3, 4]
    assert read["tokens"] == fourth["total_tokens"] == sum(message["tokens"] for message in read["messages"])
    assert read["version"] == fourth["version"] + 1, "the eviction is a change of its own"
    last = read["messages"][-1]
    assert (last["content"], last["importance"], last["metadata"], last["by"]) == (
        {"text": "four"},
        0.25,
        {"a": 1},
        "bot",
    )
    assert await writer.originals() == ["one"]
    told = await writer.feed("window.chat.>")
    assert [change.what for change in told] == ["window.appended"] * 4 + ["window.evicted"]
    assert [change.body["key"] for change in told] == ["k1"] * 5
    assert told[3].body["value"]["appended"] == [
        {
            "message_id": last["message_id"],
            "sequence": 4,
            "role": "user",
            "share": "short_term",
            "tokens": last["tokens"],
        }
    ]
    assert told[4].body["value"]["sequences"] == [1]


async def test_a_repeated_append_adds_nothing(writer: Writer) -> None:
    await writer.declare()
    named = {**CHAT, "message": {"role": "user", "content": "one"}, "message_id": "m1"}
    first = await writer.ask("append", named)
    again = await writer.ask("append", named)
    assert again == {**first, "duplicate": True}
    many = {**CHAT, "messages": [{"role": "user", "content": text} for text in "ab"]}
    once = await writer.ask("append_many", many, id=writer.id("x"))
    twice = await writer.ask("append_many", many, id=writer.id("x"))
    assert twice == {**once, "duplicate": True}
    assert await writer.contents() == ["one", "a", "b"]


async def test_a_durable_command_appends(writer: Writer) -> None:
    await writer.declare(key="user:{{ user_id }}")
    for text in ("one", "two"):
        body = {"resource": "chat", "context": {"user_id": "k1"}, "message": {"role": "user", "content": text}}
        await writer.command("append", "chat", body, id=writer.id(text))
    here = {"resource": "chat", "key": "user:k1"}
    await writer.feed_of(2, "window.>")
    assert await writer.contents(here) == ["one", "two"]


async def test_a_window_is_named_by_a_context(writer: Writer) -> None:
    await writer.declare(key="user:{{ user_id | lower }}:{{ agent.id | default('any') | slug }}")
    context = {"user_id": "A:lice%", "agent": {"id": "Big Bot"}}
    here: Body = {"resource": "chat", "context": context}
    assert (await writer.say("hi", here=here))["key"] == "user:a%3Alice%25:big-bot"
    assert await writer.contents(here) == ["hi"]
    assert (await writer.say("hi", here={"resource": "chat", "context": {"user_id": 7}}))["key"] == "user:7:any"
    contexts: list[tuple[Body, str]] = [
        ({"agent": {}}, "context.user_id"),
        ({"user_id": ["x"]}, "context.user_id"),
        ({"user_id": "x" * 300}, "context"),
    ]
    for wrong, field in contexts:
        refused = await writer.refusal("read", resource="chat", context=wrong)
        assert (refused.code, refused.context["field"]) == (40001, field)
    refused = await writer.refusal("read", {**CHAT, "context": context})
    assert (refused.code, refused.context["field"]) == (40001, "context")
    listed = await writer.ask("windows", prefix="user:a%3Alice%25")
    assert [item["key"] for item in listed["items"]] == ["user:a%3Alice%25:big-bot"]


async def test_many_writers_share_a_window_within_its_budget(writer: Writer) -> None:
    await writer.declare(type="token", max_tokens=100, max_messages=None, eviction="lru")
    done = False

    async def watch() -> int:
        reads = 0
        while not done:
            read = await writer.ask("read", CHAT)
            assert read["tokens"] <= 100
            assert read["tokens"] == sum(message["tokens"] for message in read["messages"])
            reads += 1
        return reads

    async def write(name: str) -> list[int]:
        mine = writer.called(name)
        return [(await mine.say(f"{name} says {number}"))["sequence"] for number in range(10)]

    await writer.say("begin")
    watching = asyncio.create_task(watch())
    written = await asyncio.gather(*(write(f"bot{number}") for number in range(20)))
    done = True
    assert await watching > 0
    assert sorted(sequence for each in written for sequence in each) == list(range(2, 202))
    assert all(each == sorted(each) for each in written)
    contents, originals = await writer.contents(), await writer.originals(limit=7)
    assert len(contents) + len(originals) == 201
    assert set(contents).isdisjoint(originals)


async def test_a_tool_call_leaves_with_its_results(writer: Writer) -> None:
    await writer.declare(max_messages=4)
    calls = [{"id": "c1", "function": {"name": "search"}}, {"id": "c2"}]
    await writer.say(None, "assistant", tool_calls=calls)
    await writer.say("one", "tool", tool_call_id="c1")
    await writer.say("question")
    await writer.say("two", "tool", tool_call_id="c2")
    left = await writer.say("answer")
    assert left["evicted"] == [1, 2, 4]
    assert await writer.contents() == ["question", "answer"]
    # The result of a call that has left follows it.
    await writer.say("", "assistant", tool_calls=[{"id": "c3"}])
    for text in "abcd":
        await writer.say(text)
    late = await writer.say("late", "tool", tool_call_id="c3")
    assert (late["evicted"], await writer.contents()) == ([late["sequence"]], ["a", "b", "c", "d"])
    assert (await writer.originals())[-1] == "late"


async def test_shares_of_the_budget_are_lent_and_taken_back(writer: Writer) -> None:
    shares = {"system": 0.25, "long_term": 0.25, "short_term": 0.5}
    await writer.declare(type="token", max_tokens=80, max_messages=None, allocation=shares)
    for text in "abcdefghijklmnop":
        await writer.say(text)
    full = await writer.ask("read", CHAT)
    each = full["messages"][0]["tokens"]
    assert len(full["messages"]) == 80 // each, "all of it is lent"
    for text in "ABC":
        await writer.say(text, share="long_term")
    for text in "RST":
        await writer.say(text, "system")
    stats = await writer.ask("stats", CHAT)
    room = 20 // each * each
    assert stats["shares"]["system"] == stats["shares"]["long_term"] == min(room, 3 * each)
    assert stats["tokens"] <= 80
    assert stats["limits"]["shares"] == {"system": 20, "long_term": 20, "short_term": 40}
    for share, room in (("system", 20), ("short_term", 80)):
        refused = await writer.refusal("append", CHAT, message={"role": "user", "content": "x " * 200, "share": share})
        assert (refused.error["name"], refused.context["limit"]) == (
            "TooLarge",
            min(room, 80) if share == "short_term" else 80,
        )
    assert "system" in [
        message["role"] for message in (await writer.ask("read", CHAT, max_tokens=each * 4))["messages"]
    ]


async def test_pinned_messages_and_those_of_the_system_stay_by_priority(writer: Writer) -> None:
    await writer.declare(max_messages=4, eviction="priority")
    await writer.say("rules", "system")
    await writer.say("pinned", importance=0, pinned=True)
    await writer.say("low", importance=0.1)
    await writer.say("usual")
    await writer.say("high", importance=0.9)
    assert await writer.contents() == ["rules", "pinned", "usual", "high"]
    await writer.say("usual too")
    assert await writer.contents() == ["rules", "pinned", "high", "usual too"]
    for text in "ab":
        await writer.say(text, pinned=True)
    refused = await writer.refusal("append", CHAT, message={"role": "user", "content": "no room"})
    assert (refused.error["name"], refused.context["field"]) == ("TooLarge", "message")


async def test_a_read_takes_the_newest_within_its_limits(writer: Writer) -> None:
    await writer.declare()
    await writer.say("rules", "system")
    await writer.say(None, "assistant", tool_calls=[{"id": "c"}])
    await writer.say("result", "tool", tool_call_id="c")
    for text in ("a", "b"):
        await writer.say(text)
    assert await writer.contents(limit=3) == ["rules", "a", "b"]
    assert await writer.contents(limit=4) == ["rules", "a", "b"], "the call stays with its result"
    assert await writer.contents(limit=5) == ["rules", None, "result", "a", "b"]
    assert await writer.contents(shares=["short_term"], limit=2) == ["a", "b"]
    small = await writer.ask("read", CHAT, max_tokens=13)
    assert (small["cut"], small["tokens"] <= 13) == ("tokens", True)
    for text in "wxyz":
        await writer.say(text * 240_000)
    large = await writer.ask("read", CHAT)
    assert (large["cut"], large["messages"][-1]["content"]) == ("bytes", "z" * 240_000)


async def test_write_replaces_under_the_version_that_was_read(writer: Writer) -> None:
    await writer.declare()
    await writer.say("one")
    version = (await writer.ask("read", CHAT))["version"]
    await writer.say("two")
    new: list[Any] = [{"role": "user", "content": "new"}]
    refused = await writer.refusal("write", CHAT, messages=new, expect_version=version)
    assert (refused.code, refused.context) == (40902, {"expected": version, "actual": version + 1})
    written = await writer.ask("write", CHAT, messages=new, expect_version=version + 1)
    assert (written["messages"], written["results"][0]["sequence"]) == (1, 3)
    assert (await writer.contents(), await writer.originals()) == (["new"], ["one", "two"])


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"type": "token", "max_messages": None}, "resource.max_tokens"),
        ({"max_messages": None}, "resource.max_messages"),
        ({"type": "buffer", "max_messages": None}, "resource.max_tokens"),
        ({"allocation": {"system": 0, "long_term": 0, "short_term": 1}}, "resource.allocation"),
        (
            {"max_tokens": 99, "allocation": {"system": 0.5, "long_term": 0, "short_term": 0.6}},
            "resource.allocation",
        ),
        ({"flushing": {"strategy": "time"}}, "resource.flushing.every_seconds"),
        ({"flushing": {"strategy": "message_count"}}, "resource.flushing.every_messages"),
        ({"flushing": {"strategy": "token_threshold"}}, "resource.max_tokens"),
        ({"flushing": {"strategy": "fifo", "threshold": 1.5}}, "resource.flushing.threshold"),
        ({"key": "{{ user.__class__ }"}, "resource.key"),
        ({"key": "{{ a() }}"}, "resource.key"),
        ({"key": "{{ a | upper }}"}, "resource.key"),
        ({"key": "{% for a in b %}"}, "resource.key"),
        ({"token_provider": "nobody"}, "resource.token_provider"),
    ],
)
async def test_a_resource_that_makes_no_sense_is_refused(writer: Writer, fields: Body, field: str) -> None:
    refused = await writer.refusal(
        "resource_put",
        resource={"id": "chat", "type": "message", "key": "{{ user_id }}", "max_messages": 10, **fields},
    )
    assert (refused.code, refused.context["field"]) == (40001, field)


async def test_unknown_resources_and_windows_are_not_found(writer: Writer) -> None:
    assert (await writer.refusal("append", CHAT, message={"role": "user"})).context == {"resource": "chat"}
    await writer.declare()
    for operation in ("read", "originals", "health", "stats", "clear", "flush"):
        refused = await writer.refusal(operation, CHAT)
        assert (refused.code, refused.context) == (40401, CHAT)
    await writer.say("hi")
    assert (await writer.refusal("delete", CHAT, message_id="m")).context == {"message_id": "m"}
    longest = {"resource": "chat", "key": "語" * 256, "message": {"role": "user"}}
    await writer.ask("append", longest)
    deleted = await writer.ask("resource_delete", {"id": "chat"})
    assert deleted["version"] == 2
    assert (await writer.refusal("append", CHAT, message={"role": "user"})).code == 40401
    assert await writer.contents() == ["hi"], "its windows stay readable"


async def test_only_the_writers_of_a_resource_write(writer: Writer) -> None:
    await writer.declare(writers=["bot", "support-*-eu"])
    await writer.say("one", here={**CHAT, "message_id": "m"})
    await writer.called("support-4-eu").say("two")
    here = {**CHAT, "mode": "read-only"}
    assert await writer.called("support-4").contents(here) == ["one", "two"]
    writes: list[tuple[str, Body]] = [
        ("append", {"message": {"role": "user"}}),
        ("append_many", {"messages": [{"role": "user"}]}),
        ("write", {"messages": []}),
        ("delete", {"message_id": "m"}),
        ("clear", {}),
        ("flush", {}),
    ]
    for operation, fields in writes:
        refused = await writer.called("support-4").refusal(operation, CHAT, **fields)
        assert (refused.code, refused.context) == (40301, {"field": "resource"}), operation
        refused = await writer.refusal(operation, here, **fields)
        assert (refused.code, refused.context) == (40301, {"field": "mode"}), operation
    assert await writer.contents() == ["one", "two"]


async def test_a_lower_limit_holds_for_the_next_read(writer: Writer) -> None:
    await writer.declare()
    for text in "abc":
        await writer.say(text)
    await writer.declare(max_messages=2)

    async def lowered() -> bool:
        return await writer.contents() == ["b", "c"]

    await eventually(lowered, "both workers know the new limit")
    assert (await writer.say("d"))["evicted"] == [1, 2]
