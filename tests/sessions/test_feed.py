"""Changes on the feed: subjects, CloudEvents headers and bodies, in order and once."""

import asyncio
from datetime import datetime

import pytest
from nats.aio.msg import Msg

from hivemem_contracts.changes import Change, change_headers
from hivemem_contracts.subjects import parse_change_subject
from hivemem_runtime.bus.subscriptions import subscribe

from .hive import Agent, Told

pytestmark = pytest.mark.asyncio(loop_scope="session")

TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


async def test_each_write_is_told_with_its_versions(bot: Agent) -> None:
    await bot.create("s1", project_id="p", initial_state={"a": 1, "project:x": 1, "user:x": 1})
    await bot.append("s1", state_delta={"b": 1})
    await bot.append("s1", state_delta={"app:x": 1, "user:x": 2})
    await bot.ask("state_set", session_id="s1", key="c", value=1)
    await bot.ask("state_set", session_id="s1", key="user:y", value=1)
    await bot.ask("set_status", session_id="s1", status="paused")
    await bot.ask("terminate", session_id="s1")
    await bot.ask("fork", session_id="s1", new_session_id="f")
    await bot.ask("archive", session_id="s1")
    await bot.ask("delete", session_id="s1")
    by_address: dict[str, list[tuple[str, int, int | None]]] = {}
    for told in await bot.feed():
        told_so_far = by_address.setdefault(told.subject.split(".", 3)[3], [])
        told_so_far.append((told.body["operation"], told.body["version"], told.body["previous_version"]))
    assert by_address == {
        "session.s1": [
            ("created", 1, None),
            ("status_changed", 2, 1),
            ("state_changed", 4, 3),
            ("status_changed", 5, 4),
            ("status_changed", 6, 5),
            ("archived", 7, 6),
            ("deleted", 8, 7),
        ],
        "event.s1": [("appended", 1, None), ("appended", 2, 1)],
        "session.f": [("forked", 1, None)],
        "state.user.user": [("changed", 1, None), ("changed", 2, 1), ("changed", 3, 2)],
        "state.app.app": [("changed", 1, None)],
        "state.project.p": [("changed", 1, None)],
    }


async def test_a_change_is_a_cloud_event(bot: Agent) -> None:
    agent = bot.called("a gent")
    await agent.ask("create", id="cause-1", session_id="s.1 é", app_name="a", user_id="u")
    [told] = await agent.feed()
    assert told.subject == f"hive.chg.{bot.tenant}.session.s%2E1%20%C3%A9"
    body = Change.model_validate(told.body, strict=False)
    assert (body.tenant, body.namespace, body.key, body.actor, body.cause) == (
        bot.tenant,
        "s.1 é",
        None,
        "a gent",
        "cause-1",
    )
    assert told.headers.items() >= change_headers(body, "s%2E1%20%C3%A9").items()
    assert told.headers["ce-subject"] == "s%252E1%2520%C3%A9".replace("%C3%A9", "%25C3%25A9")
    assert told.headers["ce-type"] == "hivemem.session.created"
    assert told.body["value"]["session_id"] == "s.1 é"
    assert datetime.fromisoformat(told.body["at"]).tzinfo is not None
    assert parse_change_subject(told.subject)[2].parts == ("s.1 é",)


async def test_the_trace_of_a_write_goes_along(bot: Agent) -> None:
    await bot.create("s1")
    body = b'{"session_id":"s1","event":{"type":"n"},"state_delta":{"user:x":1}}'
    await bot.send("append", body, headers={"traceparent": TRACE, "Nats-Msg-Id": "m1"})
    first, *caused = await bot.feed()
    assert "traceparent" not in first.headers
    assert [told.what for told in caused] == ["event.appended", "session.status_changed", "state.changed"]
    assert {told.headers["traceparent"] for told in caused} == {TRACE}
    assert {told.body["cause"] for told in caused} == {"m1"}


async def test_values_over_64_kib_are_left_out(bot: Agent) -> None:
    await bot.create("s1")
    await bot.append("s1", content="x" * 70_000, state_delta={"user:x": "y" * 70_000})
    await bot.append("s1", content="x" * 60_000)
    told = {(told.what, told.body["version"]): told.body for told in await bot.feed()}
    for large in (told["event.appended", 1], told["state.changed", 1]):
        assert (large["value"], large["value_omitted"]) == (None, True)
    assert told["event.appended", 2]["value_omitted"] is False
    assert len(told["event.appended", 2]["value"]["content"]) == 60_000


async def test_the_values_are_those_of_the_answers(bot: Agent) -> None:
    await bot.create("s1", initial_state={"a": 1, "temp:t": 1})
    made = await bot.session("s1")
    await bot.append("s1", event_id="e1", content=[1], metadata={"m": 1}, state_delta={"a": None})
    [event] = await bot.events("s1")
    await bot.ask("state_set", session_id="s1", key="a", value=2)
    await bot.ask("state_set", session_id="s1", key="user:a", value=3)
    await bot.ask("terminate", session_id="s1")
    await bot.ask("fork", session_id="s1", new_session_id="f")
    fork = await bot.session("f")
    values = {(told.what, told.body["version"]): told.body["value"] for told in await bot.feed()}
    assert values == {
        ("session.created", 1): made,
        ("event.appended", 1): event,
        ("session.status_changed", 2): {"status": "active", "previous_status": "created", "state_delta": None},
        ("session.state_changed", 3): {"state_delta": {"a": 2}, "state_nulls": None},
        ("state.changed", 1): {"state_delta": {"user:a": 3}, "state_nulls": None, "session_id": "s1"},
        ("session.status_changed", 4): {
            "status": "terminated",
            "previous_status": "active",
            "state_delta": {"temp:t": None},
        },
        ("session.forked", 1): {**fork, "state": {"a": 2}},
    }


async def test_a_session_of_a_used_id_is_told_again_from_its_first_event(bot: Agent) -> None:
    """The bus still detects duplicates of the first session's changes at that time."""
    for life in range(3):
        await bot.create("s1")
        for n in range(3):
            await bot.append("s1", content=[life, n])
        await bot.ask("delete", session_id="s1")
    told = [told.body["value"]["content"] for told in await bot.feed("event.s1")]
    assert told == [[life, n] for life in range(3) for n in range(3)]


async def test_the_live_feed_tells_the_same(bot: Agent) -> None:
    heard: list[str] = []
    done = asyncio.Event()

    async def hear(message: Msg) -> None:
        heard.append((message.headers or {})["ce-type"])
        if len(heard) == 3:
            done.set()

    subscription = await subscribe(bot.client, f"hive.live.{bot.tenant}.>", hear)
    await bot.client.flush()
    await bot.create("s1")
    await bot.append("s1")
    async with asyncio.timeout(10):
        await done.wait()
    assert heard == ["hivemem.session.created", "hivemem.event.appended", "hivemem.session.status_changed"]
    await subscription.unsubscribe()


def gapless(told: list[Told], subject: str) -> bool:
    versions = [change.body["version"] for change in told if change.subject == subject]
    return versions == list(range(1, len(versions) + 1))


async def test_fifty_sessions_at_once_are_told_in_order(bot: Agent) -> None:
    async def one(number: int) -> None:
        session_id = f"s{number}"
        await bot.create(session_id)
        for n in range(20):
            await bot.append(session_id, content=n, state_delta={"n": n, "app:n": n})

    await asyncio.gather(*(one(number) for number in range(50)))
    told = await bot.feed()
    for number in range(50):
        events = [change for change in told if change.subject.endswith(f".event.s{number}")]
        assert [change.body["value"]["content"] for change in events] == list(range(20))
        assert [change.body["version"] for change in events] == list(range(1, 21))
        assert await bot.sequences(f"s{number}") == list(range(1, 21))
    assert gapless(told, f"hive.chg.{bot.tenant}.state.app.app")
    assert len([change for change in told if change.what == "state.changed"]) == 1_000


async def test_fifty_writers_of_one_session_lose_nothing(bot: Agent) -> None:
    await bot.create("s1")

    async def one(number: int) -> list[int]:
        agent = bot.called(f"agent-{number}")
        sequences: list[int] = []
        for n in range(10):
            field = {"content": [number, n], "event_id": f"{number}-{n}", "state_delta": {f"k{number}": n}}
            first = await agent.append("s1", id=f"m{n}", **field)
            if n % 3 == 0:
                again = await agent.append("s1", id=f"m{n}" if n % 2 else f"other-{n}", **field)
                assert again == {**first, "duplicate": True}
            sequences.append(first["sequence"])
        return sequences

    answered = await asyncio.gather(*(one(number) for number in range(50)))
    assert sorted(sequence for sequences in answered for sequence in sequences) == list(range(1, 501))
    events = await bot.events("s1", limit=200)
    assert [event["sequence"] for event in events] == list(range(1, 501))
    for number, sequences in enumerate(answered):
        assert sequences == sorted(sequences)
        assert [events[sequence - 1]["content"] for sequence in sequences] == [[number, n] for n in range(10)]
    session = await bot.session("s1")
    assert (session["event_count"], session["state"]) == (500, {f"k{number}": 9 for number in range(50)})
    told = await bot.feed("event.s1")
    assert [change.body["value"]["content"] for change in told] == [event["content"] for event in events]


async def test_conditional_writers_of_one_session_go_one_by_one(bot: Agent) -> None:
    await bot.create("s1", initial_state={"count": 0})

    async def add_one(number: int) -> None:
        agent = bot.called(f"agent-{number}")
        while True:
            session = await agent.session("s1")
            body = {"session_id": "s1", "event": {"type": "add"}, "expect_revision": session["revision"]}
            try:
                await agent.ask("append", body, state_delta={"count": session["state"]["count"] + 1})
            except Exception as refused:
                assert getattr(refused, "code", None) == 40902  # noqa: PT017
            else:
                return

    await asyncio.gather(*(add_one(number) for number in range(20)))
    assert (await bot.session("s1"))["state"] == {"count": 20}
    assert await bot.sequences("s1") == list(range(1, 21))
