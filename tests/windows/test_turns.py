"""Windows as people use them: handles, turns with a model, and the windows in an agent's configuration."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any, Final

import pytest
import pytest_asyncio
from pydantic import BaseModel

import hivemem
import hivemem.sync
from hivemem.unseen_messages import UnseenMessages
from hivemem.window_turns import Format
from hivemem_testing.waiting import eventually

from .conftest import Fleet, Writer

pytestmark = pytest.mark.asyncio(loop_scope="session")

CALL: Final = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Rome"}'}}


class Completion(BaseModel):
    """A reply as the library of OpenAI returns it."""

    choices: list[dict[str, Any]]


OPENAI: Final = Completion(choices=[{"message": {"role": "assistant", "content": None, "tool_calls": [CALL]}}])
ANTHROPIC: Final = {
    "role": "assistant",
    "content": [
        {"type": "thinking", "thinking": "hm"},
        {"type": "text", "text": "I look."},
        {"type": "tool_use", "id": "c1", "name": "weather", "input": {"city": "Rome"}},
    ],
}
GEMINI: Final = {
    "candidates": [{"content": {"parts": [{"functionCall": {"name": "weather", "args": {"city": "Rome"}}}]}}]
}
RESULTS: Final = {
    "openai": {"role": "tool", "tool_call_id": "c1", "content": "sunny"},
    "anthropic": {"type": "tool_result", "tool_use_id": "c1", "content": [{"type": "text", "text": "sunny"}]},
    "gemini": {"functionResponse": {"name": "weather", "response": {"sky": "sunny"}}},
}


@pytest_asyncio.fixture(loop_scope="session")
async def hive(fleet: Fleet, writer: Writer) -> AsyncIterator[hivemem.Hive]:
    """A client of a new tenant, in which the resource `chat` is declared."""
    await writer.declare()
    address = fleet.client.connected_url
    assert address is not None
    async with hivemem.connect(address.geturl(), tenant=writer.tenant, agent=writer.name) as hive:
        yield hive


async def stored(window: hivemem.Window, count: int) -> list[Any]:
    """Return the messages, once that many were applied."""
    found: list[Any] = []

    async def applied() -> bool:
        try:
            found[:] = (await window.read()).messages
        except hivemem.NotFound:
            return False
        return len(found) == count

    await eventually(applied, f"{count} messages")
    return found


def said(turn: hivemem.WindowTurn, format: Format) -> Sequence[object]:
    """Return the conversation as a provider gets it."""
    if format == "anthropic":
        return turn.messages(format="anthropic")["messages"]
    return turn.messages() if format == "openai" else turn.messages(format="gemini")["contents"]


async def test_a_handle_has_the_operations_of_its_window(hive: hivemem.Hive) -> None:
    window = hive.window("chat", user_id="u1")
    first = await window.append({"role": "user", "content": "one"}, message_id="m1")
    again = await window.append({"role": "user", "content": "one"}, message_id="m1")
    await window.append_many([hivemem.WindowMessage(role="assistant", content="two")])
    same = hive.window("chat", key="user:u1")

    assert (first.key, again.duplicate) == ("user:u1", True)
    assert [message.content for message in (await same.read()).messages] == ["one", "two"]
    assert (await same.write([{"role": "user", "content": "three"}])).messages == 1
    assert [message.content async for message in same.originals()] == ["one", "two"]
    assert (await same.health()).healthy
    assert (await same.stats()).appended == 3
    with pytest.raises(hivemem.InvalidRequest, match=r"message\.rol: no such field \(did you mean 'role'\?\)"):
        await window.append({"rol": "user"})


@pytest.mark.parametrize(("format", "reply"), [("openai", OPENAI), ("anthropic", ANTHROPIC), ("gemini", GEMINI)])
async def test_a_turn_reads_asks_a_model_and_takes_back_calls_and_results(
    hive: hivemem.Hive, format: Format, reply: object
) -> None:
    window = hive.window("chat", user_id=format)
    async with window.turn("Weather in Rome?") as turn:
        (call,) = turn.answer(reply).tool_calls
        assert (call.name, call.arguments) == ("weather", {"city": "Rome"})
        turn.tool_result(RESULTS[format])
        assert len(said(turn, format)) == 3
        assert turn.answer("It is sunny.").text == "It is sunny."

    found = await stored(window, 4)
    assert [message.role for message in found] == ["user", "assistant", "tool", "assistant"]
    assert found[1].tool_calls[0]["id"] == found[2].tool_call_id == call.id
    assert {message.metadata["turn"] for message in found} == {turn.id}


async def test_a_turn_sees_what_this_client_said_before(hive: hivemem.Hive) -> None:
    so_far: list[str] = []
    for number in range(4):
        async with hive.window("chat", user_id="u2").turn(f"question {number}") as turn:
            turn.answer(f"answer {number}")
            so_far += [f"question {number}", f"answer {number}"]
            assert [message["content"] for message in turn.messages()] == so_far


async def test_messages_are_added_to_reads_until_a_later_one_was_read() -> None:
    unseen = UnseenMessages()
    for number in range(3):
        unseen.add("w", f"m{number}", hivemem.WindowMessage(role="user", content=number))
    unseen.add("other", "m9", hivemem.WindowMessage(role="user", content=9))
    assert [message.content for message in unseen.after("w", ())] == [0, 1, 2]
    assert [message.content for message in unseen.after("w", {"m1"})] == [2]
    assert [message.content for message in unseen.after("w", ())] == [2]
    assert [message.content for message in unseen.after("other", {"m2"})] == [9]


async def test_an_interrupted_turn_keeps_what_was_said_and_is_marked(hive: hivemem.Hive) -> None:
    window = hive.window("chat", user_id="u3")
    turn = window.turn("Hello?")
    with pytest.raises(ConnectionError):
        async with turn:
            raise ConnectionError
    said, mark = await stored(window, 2)
    assert (said.content, mark.metadata) == ("Hello?", {"turn": turn.id, "interrupted": "ConnectionError"})
    async with window.turn("Again") as turn:
        assert [message["content"] for message in turn.messages()] == ["Hello?", "Again"]


async def test_what_no_turn_can_take_is_refused_by_name(hive: hivemem.Hive) -> None:
    async with hive.window("chat", user_id="u4").turn() as turn:
        wrong: list[tuple[object, str]] = [
            (7, "reply"),
            ({"output": 1}, "reply"),
            ({"choices": [{}]}, "reply.choices.0.message"),
        ]
        for reply, field in wrong:
            with pytest.raises(hivemem.InvalidRequest) as caught:
                turn.answer(reply)
            assert caught.value.context["field"] == field
        with pytest.raises(hivemem.InvalidRequest, match=r"result\.name: .*'weather' is open"):
            turn.tool_result(RESULTS["gemini"])
        misspelt: Any = "openia"
        with pytest.raises(hivemem.InvalidRequest, match="format: one of openai, anthropic, gemini"):
            turn.messages(format=misspelt)
    with pytest.raises(hivemem.NotFound, match="'chta' is not declared"):
        async with hive.window("chta", user_id="u4").turn():
            pass


async def test_a_configuration_has_three_levels(hive: hivemem.Hive) -> None:
    (own,) = hive.windows_of("chat", user_id="u5").values()
    named = hive.windows_of({"name": "chat", "key": "user:u5"})["chat"]
    several = hive.windows_of(["chat", {"name": "chat", "key": "user:u6", "mode": "read-only", "alias": "of u6"}])
    await own.append({"role": "user", "content": "hello"})
    assert [message.content for message in (await named.read()).messages] == ["hello"]
    assert list(several) == ["chat", "of u6"]
    with pytest.raises(hivemem.Forbidden, match=r"mode: windows\.append: the window of 'chat' is read-only"):
        await several["of u6"].append({"role": "user", "content": "no"})
    async with hive.windows_of({"name": "chat", "key": "user:u5", "mode": "read-only"})["chat"].turn() as turn:
        assert turn.messages() == [{"role": "user", "content": "hello"}]
        with pytest.raises(hivemem.Forbidden):
            turn.answer("no")


@pytest.mark.parametrize(
    ("config", "said"),
    [
        (["chat", {"name": "chat", "mode": "write"}], r"windows\.1\.mode: .* got \"write\""),
        ([{"nmae": "chat"}], r"windows\.0\.nmae: no such field \(did you mean 'name'\?\)"),
        (["chat", "chat"], r"windows\.1\.alias: \"chat\" is there twice"),
        ({"name": "chat", "key": "user:{{ user_id }}"}, r"windows\.0\.key: a key has no variables"),
        ([], "windows: .* at least 1"),
    ],
)
async def test_an_error_in_a_configuration_names_its_field(config: Any, said: str) -> None:
    with pytest.raises(hivemem.InvalidRequest, match=said):
        hivemem.Hive("nats://127.0.0.1:1").windows_of(config)


async def test_the_synchronous_client_has_windows_and_turns(hive: hivemem.Hive) -> None:
    def work() -> None:
        with hivemem.sync.connect(hive.connection.shown_url, tenant=hive.tenant) as blocking:
            window = blocking.window("chat", user_id="u7")
            window.append({"role": "system", "content": "Be brief."})
            with window.turn("Weather in Rome?") as turn:
                (call,) = turn.answer(OPENAI).tool_calls
                turn.tool_result(call, "sunny")
                assert [message["role"] for message in turn.messages()] == [
                    "system",
                    "user",
                    "assistant",
                    "tool",
                ]
            assert [use.mode for use in blocking.windows_of("chat", user_id="u7").values()] == ["read-write"]
            assert list(window.originals()) == []

    await asyncio.to_thread(work)
