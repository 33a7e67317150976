"""An append is one step with its delta, conditional on request, and idempotent."""

import asyncio

import pytest

from .hive import Agent

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_an_event_and_its_delta_are_one_step(bot: Agent) -> None:
    await bot.create("s1", initial_state={"keep": 1, "drop": 2, "user:x": 1})
    delta = {"drop": None, "new": {"deep": [1]}, "user:x": 2, "app:y": 3, "temp:z": 4}
    appended = await bot.append(
        "s1",
        "message",
        event_id="e1",
        author="alice",
        content=["any", {"json": None}],
        metadata={"m": 1},
        state_delta=delta,
    )
    assert appended == {"session_id": "s1", "event_id": "e1", "sequence": 1, "revision": 2, "duplicate": False}
    session = await bot.session("s1")
    assert session["state"] == {"keep": 1, "new": {"deep": [1]}, "user:x": 2, "app:y": 3, "temp:z": 4}
    assert (session["status"], session["revision"], session["event_count"]) == ("active", 2, 1)
    [event] = await bot.events("s1")
    assert event.pop("at") == session["updated_at"]
    assert event == {
        "event_id": "e1",
        "sequence": 1,
        "type": "message",
        "author": "alice",
        "content": ["any", {"json": None}],
        "state_delta": delta,
        "state_nulls": None,
        "metadata": {"m": 1},
        "parent_id": None,
        "occurred_at": None,
    }


async def test_author_and_id_have_defaults(bot: Agent) -> None:
    await bot.create("s1")
    appended = await bot.append("s1", parent_id="elsewhere")
    [event] = await bot.events("s1")
    assert (event["author"], event["content"], event["metadata"], event["state_delta"]) == ("bot", None, {}, None)
    assert (event["event_id"], event["parent_id"]) == (appended["event_id"], "elsewhere")
    assert len(event["event_id"]) == 26


async def test_a_stale_revision_is_refused_and_nothing_is_done(bot: Agent) -> None:
    await bot.create("s1")
    await bot.append("s1", expect_revision=1)
    refused = await bot.refusal(
        "append", session_id="s1", event={"type": "late"}, state_delta={"a": 1, "user:b": 1}, expect_revision=1
    )
    assert (refused.code, refused.error["retryable"]) == (40902, False)
    assert refused.context == {"expected": 1, "actual": 2}
    session = await bot.session("s1")
    assert (session["revision"], session["event_count"], session["state"]) == (2, 1, {})


async def test_the_same_event_id_again_answers_the_first_result(bot: Agent) -> None:
    await bot.create("s1")
    first = await bot.append("s1", event_id="e1", content=1, state_delta={"a": 1}, expect_revision=1)
    await bot.append("s1", event_id="e2")
    again = await bot.append("s1", event_id="e1", content="other", state_delta={"a": 2}, expect_revision=1)
    assert again == {**first, "duplicate": True}
    assert await bot.sequences("s1") == [1, 2]
    assert (await bot.session("s1"))["state"] == {"a": 1}


async def test_the_same_message_id_again_answers_the_first_result(bot: Agent) -> None:
    await bot.create("s1")
    first = await bot.append("s1", id="m1")
    again = await bot.append("s1", id="m1")
    assert again == {**first, "duplicate": True}
    assert (await bot.append("s1", id="m2"))["sequence"] == 2
    assert (await bot.called("other").append("s1", id="m1"))["sequence"] == 3


async def test_an_event_id_belongs_to_its_session(bot: Agent) -> None:
    await bot.create("s1")
    await bot.create("s2")
    await bot.append("s1", event_id="e1")
    assert (await bot.append("s2", event_id="e1"))["duplicate"] is False


async def test_a_refused_request_may_be_sent_again_under_its_id(bot: Agent) -> None:
    refused = await bot.refusal("append", id="m1", session_id="s1", event={"type": "note", "event_id": "e1"})
    assert refused.code == 40401
    await bot.create("s1")
    assert (await bot.append("s1", id="m1", event_id="e1"))["duplicate"] is False


async def test_a_batch_has_an_outcome_for_each(bot: Agent) -> None:
    await bot.create("s1")
    await bot.create("s2")
    appends = [
        {"session_id": "s1", "event": {"type": "a", "event_id": "e1"}, "state_delta": {"n": 1}},
        {"session_id": "s2", "event": {"type": "b"}, "expect_revision": 7},
        {"session_id": "nobody", "event": {"type": "c"}},
        {"session_id": "s1", "event": {"type": "d"}, "state_delta": {"n": 2}},
        {"session_id": "s1", "event": {"type": "a", "event_id": "e1"}},
    ]
    answer = await bot.ask("append_batch", id="m1", appends=appends)
    one, two, three, four, five = answer["results"]
    assert (one["sequence"], one["revision"], one["duplicate"], one["error"]) == (1, 2, False, None)
    assert (two["session_id"], two["sequence"], two["error"]["code"]) == ("s2", None, 40902)
    assert two["error"]["context"] == {"expected": 7, "actual": 1}
    assert three["error"]["name"] == "NotFound"
    assert (four["sequence"], four["duplicate"]) == (2, False)
    assert (five["sequence"], five["duplicate"]) == (1, True)
    again = (await bot.ask("append_batch", id="m1", appends=appends))["results"]
    assert [item["duplicate"] for item in again] == [True, None, None, True, True]
    assert [item["sequence"] for item in again] == [1, None, None, 2, 1]
    assert (await bot.session("s1"))["state"] == {"n": 2}


async def test_a_batch_of_one_session_keeps_its_order(bot: Agent) -> None:
    await bot.create("s1")
    appends = [{"session_id": "s1", "event": {"type": "n", "content": n}} for n in range(1_000)]
    answer = await bot.ask("append_batch", appends=appends)
    assert [item["sequence"] for item in answer["results"]] == list(range(1, 1_001))
    assert [event["content"] for event in await bot.events("s1", limit=1_000)] == list(range(1_000))
    refused = await bot.refusal("append_batch", appends=[*appends, appends[0]])
    assert (refused.code, refused.context["field"]) == (40001, "appends")


async def test_shared_state_is_seen_at_once_in_every_session(bot: Agent) -> None:
    await bot.create("s1", project_id="p")
    await bot.create("s2", project_id="p", user_id="other")
    await bot.append("s1", state_delta={"project:x": 1, "app:y": {"a": 1}, "user:z": 1})
    assert (await bot.session("s2"))["state"] == {"project:x": 1, "app:y": {"a": 1}}
    await bot.append("s2", state_delta={"project:x": None, "app:y": {"b": 2}})
    assert (await bot.session("s1"))["state"] == {"app:y": {"b": 2}, "user:z": 1}
    assert (await bot.session("s1"))["revision"] == 2


async def test_what_is_appended_at_once_by_many_is_all_there(bot: Agent) -> None:
    await bot.create("s1")
    answers = await asyncio.gather(*(bot.append("s1", content=n, state_delta={f"k{n}": n}) for n in range(100)))
    assert sorted(answer["sequence"] for answer in answers) == list(range(1, 101))
    events = await bot.events("s1")
    by_sequence = {answer["sequence"]: n for n, answer in enumerate(answers)}
    assert [event["content"] for event in events] == [by_sequence[event["sequence"]] for event in events]
    assert (await bot.session("s1"))["state"] == {f"k{n}": n for n in range(100)}
