"""Recall of the events of many sessions, with their neighbours, on each store."""

import time
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest
import pytest_asyncio
from nats.aio.client import Client

from hivemem_contracts.errors import InvalidRequest, TooLarge
from hivemem_contracts.identifiers import format_microseconds
from hivemem_contracts.vectors.requests import Recall
from hivemem_runtime.bus.requests.outgoing import Asking
from hivemem_runtime.worker import Worker
from hivemem_sessions.worker import SessionsSettings
from hivemem_sessions.worker import build as build_sessions
from hivemem_testing import agent
from hivemem_testing.contract import Server
from hivemem_vectors.pipeline.decisions.changes import version_of_event
from hivemem_vectors.pipeline.decisions.points import scope_words
from hivemem_vectors.pipeline.endpoints.peers import SessionService
from hivemem_vectors.pipeline.entities import ITEM, MIRROR, named
from hivemem_vectors.recall.decisions.budget import tokens_up_to
from hivemem_vectors.recall.decisions.filters import Question
from hivemem_vectors.recall.decisions.turns import Run, runs

from .shelf import Body, Shelf, keys

pytestmark = pytest.mark.asyncio(loop_scope="session")

TALK = ("We went to the sea.", "How was the water?", "Cold, but the car was warm.", "Which one?", "The red automobile.")


async def hear(
    shelf: Shelf,
    session_id: str,
    id: str,
    *,
    sequence: int = 1,
    user: str = "alice",
    app: str = "chat",
    project: str | None = None,
    **fields: Any,
) -> None:
    """Index an event as the pipeline does."""
    event: Body = {
        "event_id": id,
        "sequence": sequence,
        "author": user,
        "content": "a note",
        "metadata": {},
        "at": format_microseconds(time.time_ns() // 1_000),
        **fields,
    }
    await shelf.sync(version_of_event(shelf.tenant, session_id, scope_words(user, app, project), event))


async def found(shelf: Shelf, **asked: Any) -> set[str]:
    """Return the keys that the index finds, after checking them against the mirror."""
    found = set(await shelf.recall("note", limit=50, **asked))
    page = await shelf.desk.ledger.find(ITEM, shelf.tenant, "all", equals={}, limit=1_000)
    mirrors = await shelf.desk.ledger.heads(MIRROR, shelf.tenant, [head.id for head in page.items])
    question = Question.of("", Recall.model_validate({"query": "note", **asked}), 0)
    fields = {place: head.value.fields for place, head in mirrors.items() if head.value is not None}
    assert {named(place)[1] for place, kept in fields.items() if question.holds(place, kept)} == found
    return found


async def test_events_are_found_by_session_user_app_and_project(shelf: Shelf) -> None:
    await shelf.keep("memory", "note", namespace="session:s1")
    await hear(shelf, "s1", "alice1", project="rome")
    await hear(shelf, "s:2", "alice2", app="mail")
    await hear(shelf, "s3", "bob3", user="bob", project="rome")

    assert await found(shelf, user_id="alice") == {"alice1", "alice2"}
    assert await found(shelf, user_id="alice", app_name="mail") == {"alice2"}
    assert await found(shelf, project_id="rome") == {"alice1", "bob3"}
    assert await found(shelf, project_id="rome", user_id="bob") == {"bob3"}
    assert await found(shelf, session_ids=["s1", "s:2", "unknown"]) == {"alice1", "alice2"}
    assert await found(shelf, session_ids=["unknown"]) == set()
    assert await found(shelf, kinds=["event"]) == {"alice1", "alice2", "bob3"}
    assert await found(shelf, kinds=["memory"]) == {"memory"}
    assert await found(shelf, kinds=["memory"], user_id="alice") == set()
    assert await found(shelf, kinds=["event", "memory"]) == {"memory", "alice1", "alice2", "bob3"}
    assert set(await shelf.recall("note", namespace_prefix="session:s1", user_id="alice")) == {"alice1"}
    assert set(await shelf.recall("note", namespace_prefix="session:s", kinds=["event"])) == set()


async def test_a_session_of_another_tenant_is_not_found(shelf: Shelf) -> None:
    await hear(shelf, "s1", "mine")
    bot = shelf.bot
    other = Shelf(shelf.desk, type(bot)(bot.client, bot.worker, f"{bot.tenant}-other"), shelf.service)

    assert await other.recall("note", session_ids=["s1"]) == []


async def test_an_event_is_of_the_time_at_which_it_occurred(shelf: Shelf) -> None:
    await hear(shelf, "s1", "old", author="Caroline", occurred_at="2023-05-08T13:56:00.000000Z")
    await hear(shelf, "s1", "new", sequence=2)

    before = {"updated_before": "2024-01-01T00:00:00Z"}
    [item] = (await shelf.answer("note", filter=before))["items"]
    assert (item["key"], item["session_id"], item["author"]) == ("old", "s1", "Caroline")
    assert item["occurred_at"] == "2023-05-08T13:56:00.000000Z"
    assert item["text"] == "Caroline: a note"
    newest = (await shelf.answer("note", weights={"relevance": 0, "recency": 1}))["items"]
    assert [item["key"] for item in newest] == ["new", "old"]


@pytest.mark.parametrize(
    ("asked", "field"),
    [
        ({"session_ids": []}, "session_ids"),
        ({"session_ids": ["s"] * 101}, "session_ids"),
        ({"session_ids": [""]}, "session_ids.0"),
        ({"kinds": []}, "kinds"),
        ({"kinds": ["document"]}, "kinds.0"),
        ({"context": 11}, "context"),
        ({"context": -1}, "context"),
        ({"user_id": ""}, "user_id"),
    ],
)
async def test_a_question_with_an_odd_field_is_refused_by_its_name(shelf: Shelf, asked: Body, field: str) -> None:
    with pytest.raises((InvalidRequest, TooLarge)) as refused:
        await shelf.answer("note", **asked)
    assert refused.value.context["field"] == field


class Talker(agent.Agent):
    SERVICE: ClassVar[str] = "sessions"

    async def talk(self, session_id: str) -> list[Body]:
        """Hold a dialogue, and return its events."""
        await self.ask("create", {"session_id": session_id, "app_name": "chat", "user_id": "alice"})
        for number, text in enumerate(TALK):
            event = {"event_id": f"e{number}", "type": "said", "content": text, "author": ("Ann", "Bob")[number % 2]}
            await self.ask("append", {"session_id": session_id, "event": event})
        events: list[Body] = (await self.ask("events", session_id=session_id))["items"]
        return events


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def sessions_worker(bus: Server, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Worker]:
    folder: Path = tmp_path_factory.mktemp("recall-sessions")
    worker = build_sessions(SessionsSettings(nats_url=bus.url, store="sqlite", data=folder))
    await worker.start()
    yield worker
    await worker.stop()


@pytest_asyncio.fixture(loop_scope="session")
async def talk(shelf: Shelf, client: Client, sessions_worker: Worker) -> list[Body]:
    """Index a dialogue, and return its events."""
    events = await Talker(client, sessions_worker, shelf.tenant).talk("s1")
    for event in events:
        await shelf.sync(version_of_event(shelf.tenant, "s1", ["user=alice"], event))
    return events


async def test_an_event_comes_with_its_neighbours(shelf: Shelf, talk: list[Body]) -> None:
    await shelf.keep("memory", "a vehicle")
    answer = await shelf.answer("vehicle", context=2, limit=3)
    assert answer["degraded"] is None
    by_key = {item["key"]: item for item in answer["items"]}
    assert by_key["memory"]["context"] is None
    near = by_key["e2"]["context"]
    assert [turn["key"] for turn in near["before"]] == ["e0", "e1"]
    assert [turn["sequence"] for turn in near["after"]] == [4, 5]
    assert near["before"][1] == {
        "key": "e1",
        "sequence": 2,
        "author": "Bob",
        "occurred_at": talk[1]["at"],
        "text": "Bob: How was the water?",
    }
    assert [turn["key"] for turn in by_key["e4"]["context"]["before"]] == ["e2", "e3"]
    assert by_key["e4"]["context"]["after"] == []
    assert [item["context"] for item in (await shelf.answer("vehicle"))["items"]] == [None] * 6


async def test_the_budget_counts_the_texts_of_neighbours(shelf: Shelf, talk: list[Body]) -> None:
    [item] = (await shelf.answer("vehicle", context=1, limit=1))["items"]
    near = [turn["text"] for turns in item["context"].values() for turn in turns]
    tokens = sum(tokens_up_to(text, 1_000) for text in (*near, f'"{item["value"]}"'))

    whole = await shelf.answer("vehicle", context=1, limit=1, max_tokens=tokens)
    assert keys(whole) == [item["key"]]
    less = await shelf.answer("vehicle", context=1, limit=1, max_tokens=tokens - 1)
    assert (item["key"] in keys(less), less["cut"]) == (False, "tokens")


async def test_without_the_session_service_events_come_without_context(shelf: Shelf, talk: list[Body]) -> None:
    desk = replace(shelf.desk, sessions=SessionService(Asking()))
    alone = Shelf(desk, shelf.bot, desk.service())
    answer = await alone.answer("vehicle", context=1, limit=2)
    assert answer["degraded"]["reasons"] == ["sessions"]
    assert [item["context"] for item in answer["items"]] == [None, None]
    assert (await alone.answer("vehicle", limit=2))["degraded"] is None, "it is not asked without need"


async def test_overlapping_neighbourhoods_are_read_at_once() -> None:
    assert runs([("b", 3), ("a", 20), ("a", 2), ("a", 5)], 1) == [Run("a", 1, 6), Run("a", 19, 21), Run("b", 2, 4)]
