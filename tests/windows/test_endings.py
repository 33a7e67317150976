"""Deleted messages, cleared and expired windows, windows of a session, locks, and privacy."""

import asyncio

import pytest

from hivemem_runtime.ledger.places import place_of
from hivemem_testing.agent import Body, Refused
from hivemem_testing.waiting import eventually
from hivemem_windows.entities.contents import CONTENT
from hivemem_windows.entities.messages import MESSAGE

from .conftest import CHAT, Conversing, Locking, Writer

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def stored(writer: Writer, key: str = "k1") -> int:
    """Return how many messages of a window the ledger has."""
    return await writer.ledger.count(MESSAGE, writer.tenant, "window", equals={"window": place_of("chat", key)})


async def gone(writer: Writer, key: str = "k1") -> None:
    async def empty() -> bool:
        head = await writer.ledger.head(CONTENT, writer.tenant, place_of("chat", key))
        return await stored(writer, key) == 0 and (head is None or head.value is None)

    await eventually(empty, "nothing of the window is left")


async def test_a_deleted_message_goes_with_its_tool_call(writer: Writer) -> None:
    await writer.declare(max_messages=3)
    await writer.say("old", here={**CHAT, "message_id": "m0"})
    await writer.say(None, "assistant", tool_calls=[{"id": "c"}])
    await writer.say("result", "tool", tool_call_id="c", here={**CHAT, "message_id": "m1"})
    await writer.say("last")
    deleted = await writer.ask("delete", CHAT, message_id="m1", id=writer.id("d"))
    assert (deleted["sequences"], deleted["messages"]) == ([2, 3], 1)
    assert (await writer.contents(), await writer.originals()) == (["last"], ["old"])
    assert (await writer.ask("delete", CHAT, message_id="m1", id=writer.id("d")))["duplicate"]
    assert (await writer.refusal("delete", CHAT, message_id="m1")).code == 40401
    await writer.ask("delete", CHAT, message_id="m0")
    assert await writer.originals() == [], "also a message that has left"


async def test_a_cleared_window_has_nothing_left(writer: Writer) -> None:
    await writer.declare(max_messages=2)
    for text in "ab":
        await writer.say(text)
    await writer.say(None, "assistant", tool_calls=[{"id": "c"}])
    assert (await writer.ask("clear", CHAT))["deleted"] == 2
    assert (await writer.contents(), await writer.originals()) == ([], [])
    after = await writer.say("new")
    assert (after["sequence"], after["messages"]) == (4, 1)
    assert (await writer.say("late", "tool", tool_call_id="c"))["evicted"] == [5]

    async def purged() -> bool:
        return await stored(writer) == 2

    await eventually(purged, "the earlier messages are removed")
    assert await writer.contents() == ["new"]


async def test_a_window_expires_with_its_originals(writer: Writer) -> None:
    await writer.declare(max_messages=1, ttl_seconds=1)
    for text in "ab":
        await writer.say(text)
    await gone(writer)
    assert (await writer.refusal("read", CHAT)).code == 40401
    assert (await writer.ask("windows", resource="chat"))["items"] == []
    told = [change.what for change in await writer.feed("window.>")]
    assert told[-2:] == ["window.cleared", "window.erased"]
    await writer.declare(max_messages=1)
    begun: list[int] = []

    async def anew() -> bool:
        try:
            begun.append((await writer.say("new"))["sequence"])
        except Refused as refused:
            # Until the worker that answers knows that the end was announced.
            if not refused.error["retryable"]:
                raise
        return bool(begun)

    await eventually(anew, "the window begins anew")
    assert begun == [1]


@pytest.mark.parametrize("action", ["keep", "archive", "delete"])
async def test_a_window_ends_with_its_session(writer: Writer, sessions: Conversing, action: str) -> None:
    await writer.declare(key="session:{{ session_id }}", on_session_end=action)
    for id in ("s1", "s2"):
        await sessions.ask("create", session_id=id, app_name="demo", user_id="alice")
        await writer.say("hi", here={"resource": "chat", "context": {"session_id": id}})
    await sessions.ask("terminate", session_id="s1")
    one, two = ({"resource": "chat", "key": f"session:{id}"} for id in ("s1", "s2"))
    if action == "archive":
        await writer.feed_of(3, "window.>")
        refused = await writer.refusal("append", one, message={"role": "user"})
        assert (refused.code, refused.context["status"]) == (40903, "archived")
    if action == "delete":
        await gone(writer, "session:s1")
        assert (await writer.refusal("read", one)).code == 40401
    else:
        assert await writer.contents(one) == ["hi"]
    await writer.say("go on", here=two)


async def test_a_locking_window_is_written_under_the_newest_lease(writer: Writer, memory: Locking) -> None:
    await writer.declare(locking=True, max_messages=100)
    writers = [writer.called(f"bot{number}") for number in range(4)]
    await asyncio.gather(*(each.say(each.name) for each in writers))
    lease: Body = {"namespace": "app:windows:chat", "key": "k1"}
    waits = (await writer.ask("stats", CHAT))["lock_waits"]
    assert waits["count"] == 4
    held = await memory.ask("lease", lease, ttl_ms=60_000)
    claim = {**lease, "token": held["token"]}
    await writer.say("mine", here={**CHAT, "lease": claim})
    waiting = asyncio.create_task(writer.called("other").say("theirs"))
    await writer.say("mine too", here={**CHAT, "lease": claim})
    await memory.ask("release", lease, token=held["token"])
    await waiting
    refused = await writer.refusal("append", {**CHAT, "lease": claim}, message={"role": "user"})
    assert refused.error["name"] == "LeaseHeld"
    assert (await writer.contents())[-3:] == ["mine", "mine too", "theirs"]


async def test_secrets_and_some_messages_are_never_stored(writer: Writer) -> None:
    own = {"name": "ticket", "pattern": "T-[0-9]+"}
    await writer.declare(
        privacy={"redact": ["email", own], "do_not_persist": {"roles": ["tool"], "patterns": ["(?i)top secret"]}}
    )
    calls = [{"id": "T-7", "function": {"arguments": "T-7"}}]
    await writer.say({"to": "ann@example.com"}, "assistant", tool_calls=calls, metadata={"of": "T-12"})
    (message,) = (await writer.ask("read", CHAT))["messages"]
    assert message["content"] == {"to": "[redacted:email]"}
    assert message["tool_calls"] == [{"id": "T-7", "function": {"arguments": "[redacted:ticket]"}}]
    assert message["metadata"] == {"of": "[redacted:ticket]"}
    for dropped in (
        {"role": "user", "content": "x", "persist": False},
        {"role": "tool", "content": "x"},
        {"role": "user", "content": ["this is Top Secret"]},
    ):
        answer = await writer.ask("append", CHAT, message=dropped)
        assert (answer["sequence"], answer["messages"], answer["tokens"] > 0) == (None, 1, True)
    many = await writer.ask("append_many", CHAT, messages=[{"role": "tool"}, {"role": "user", "content": "too"}])
    assert [result["sequence"] for result in many["results"]] == [None, 2]
    assert await stored(writer) == 2
    assert len(await writer.feed("window.>")) == 2
    for privacy, field in (
        ({"redact": ["emial"]}, "redact"),
        ({"redact": [{"name": "x", "pattern": "("}]}, "redact"),
        ({"do_not_persist": {"patterns": ["a**"]}}, "do_not_persist.patterns"),
    ):
        declared = {"id": "r", "type": "message", "key": "k", "max_messages": 1, "privacy": privacy}
        refused = await writer.refusal("resource_put", resource=declared)
        assert (refused.code, refused.context["field"]) == (40001, f"resource.privacy.{field}")
