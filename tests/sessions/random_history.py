"""A random history of a tenant, run on the service and the model at once."""

import random
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final

from .hive import Agent, Body, Refused
from .model import Model, No

SESSIONS: Final = ("a", "b", "c", "d", "e")
KEYS: Final = ("x", "y", "temp:t", "session:s", "user:u", "app:a", "project:p", "user:v")


class RandomHistory:
    """Each step sends one request to both and compares the answers; some requests are sent twice."""

    def __init__(self, bot: Agent, seed: int) -> None:
        self.bot = bot
        self.model = Model()
        self.random = random.Random(seed)
        self.number = 0
        self.refused: dict[int, int] = {}
        self.moments: dict[str, dict[int, str]] = {}
        """The commit time of each revision of a living session."""

    async def live(self, steps: int) -> None:
        doing: list[tuple[Callable[[], Awaitable[None]], int]] = [
            (self.create, 4),
            (self.append, 30),
            (self.state_set, 8),
            (self.set_status, 6),
            (self.fork, 4),
            (self.delete, 2),
            (self.look_back, 10),
        ]
        actions = [action for action, weight in doing for _ in range(weight)]
        for _ in range(steps):
            self.number += 1
            await self.random.choice(actions)()

    async def both(self, expected: Callable[[], Any], operation: str, body: Body) -> tuple[Any, Body] | None:
        """Return the answers of the model and the service, or None if both refuse for the same reason."""
        try:
            wanted, code = expected(), 0
        except No as no:
            wanted, code = None, no.code
        id = f"m{self.number}"
        answer: Body | Refused = {}
        for _ in range(self.random.choice((1, 1, 1, 2))):
            answer = await self.patiently(operation, body, id)
            answered = answer.code if isinstance(answer, Refused) else 0
            assert answered == code, (operation, body, answer)
        if isinstance(answer, Refused):
            self.refused[code] = self.refused.get(code, 0) + 1
            return None
        return wanted, answer

    async def patiently(self, operation: str, body: Body, id: str) -> Body | Refused:
        while True:
            try:
                return await self.bot.ask(operation, body, id=id)
            except Refused as refused:
                if not refused.error["retryable"]:
                    return refused

    def change(self) -> tuple[Body, list[str]]:
        """Return a delta, and the keys that are set to null."""
        keys = self.random.sample(KEYS, self.random.randint(0, 3))
        nulls = [key for key in keys if self.random.random() < 0.2]
        values = (None, self.number, {"deep": [self.number]}, "text")
        return {key: self.random.choice(values) for key in keys if key not in nulls}, nulls

    def one(self) -> str:
        return self.random.choice(SESSIONS)

    async def noted(self, session_id: str, wanted: Body, answer: Body | None = None) -> None:
        """Compare the whole head, and record its commit time."""
        answer = answer or await self.bot.session(session_id)
        assert {name: answer[name] for name in wanted} == wanted
        self.moments.setdefault(session_id, {})[answer["revision"]] = answer["updated_at"]

    async def create(self) -> None:
        session_id = self.one()
        initial, nulls = self.change()
        app, user = self.random.choice(("a1", "a2")), self.random.choice(("u1", "u2"))
        project = self.random.choice(("p1", None))
        body = {
            "session_id": session_id,
            "app_name": app,
            "user_id": user,
            "project_id": project,
            "initial_state": initial,
            "state_nulls": nulls,
        }
        made = partial(self.model.create, session_id, app, user, project, initial, nulls)
        both = await self.both(made, "create", body)
        if both:
            self.moments.pop(session_id, None)
            await self.noted(session_id, *both)

    async def append(self) -> None:
        session_id = self.one()
        delta, nulls = self.change()
        session = self.model.sessions.get(session_id)
        again = session and session.event_ids and self.random.random() < 0.1
        event_id = self.random.choice(list(session.event_ids)) if session and again else f"e{self.number}"
        expected = session.revision - self.random.choice((0, 0, 1)) if session and self.random.random() < 0.3 else None
        event: Body = {
            "event_id": event_id,
            "type": self.random.choice(("t1", "t2")),
            "author": self.random.choice(("a1", "a2")),
            "content": self.number,
        }
        state = {"state_delta": delta, "state_nulls": nulls}
        body = {"session_id": session_id, "event": event, **state, "expect_revision": expected}
        both = await self.both(lambda: self.model.append(session_id, event, delta, nulls, expected), "append", body)
        if both:
            wanted, answer = both
            assert {**answer, "duplicate": wanted["duplicate"]} == wanted
            assert answer["duplicate"] >= wanted["duplicate"]
            if not wanted["duplicate"]:
                await self.noted(session_id, self.model.view(session_id))

    async def state_set(self) -> None:
        session_id, key = self.one(), self.random.choice(KEYS)
        value = self.random.choice((None, self.number))
        session = self.model.sessions.get(session_id)
        expected = session.revision if session and self.random.random() < 0.3 else None
        body = {"session_id": session_id, "key": key, "value": value, "expect_revision": expected}
        both = await self.both(lambda: self.model.state_set(session_id, key, value, expected), "state_set", body)
        if both:
            wanted, answer = both
            assert answer["revision"] == wanted
            if not key.startswith(("user:", "app:", "project:")):
                await self.noted(session_id, self.model.view(session_id))

    async def set_status(self) -> None:
        session_id = self.one()
        operation, status = self.random.choice(
            (("set_status", "active"), ("set_status", "paused"), ("terminate", "terminated"), ("archive", "archived"))
        )
        body = {"session_id": session_id, **({"status": status} if operation == "set_status" else {})}
        both = await self.both(lambda: self.model.set_status(session_id, status), operation, body)
        if both:
            await self.noted(session_id, *both)

    async def fork(self) -> None:
        session_id, fork_id = self.one(), self.one()
        session = self.model.sessions.get(session_id)
        revision = self.random.choice(list(session.views)) + self.random.choice((0, 0, 0, 50)) if session else 1
        body = {"session_id": session_id, "revision": revision, "new_session_id": fork_id}
        both = await self.both(lambda: self.model.fork(session_id, revision, fork_id), "fork", body)
        if both:
            self.moments.pop(fork_id, None)
            await self.noted(fork_id, *both)

    async def delete(self) -> None:
        session_id = self.one()
        both = await self.both(lambda: self.model.delete(session_id), "delete", {"session_id": session_id})
        if both:
            assert both[1]["revision"] == both[0]

    async def look_back(self) -> None:
        session_id = self.one()
        session = self.model.sessions.get(session_id)
        if session is None:
            return
        revision = self.random.choice(list(session.views))
        wanted = {name: value for name, value in session.views[revision].items() if name != "own"}
        at = self.moments[session_id][revision]
        for when in ({"revision": revision}, {"at": at}):
            past = await self.bot.session(session_id, **when)
            assert {name: past[name] for name in wanted} == wanted, when
        after, before = sorted(self.random.choices(range(len(session.events) + 2), k=2))
        filters: Body = self.random.choice(({}, {"type": "t1"}, {"author": "a2"}, {"type": "t2", "author": "a1"}))
        reverse = self.random.random() < 0.5
        expected = [
            event["content"]
            for event in session.events[after : max(before - 1, after)]
            if all(event[name] == value for name, value in filters.items())
        ]
        found = await self.bot.events(
            session_id, after=after, before=max(before, 1), reverse=reverse, limit=self.random.randint(1, 9), **filters
        )
        assert [event["content"] for event in found] == (expected[::-1] if reverse else expected)

    async def everything_agrees(self) -> None:
        for session_id in SESSIONS:
            if session_id not in self.model.sessions:
                assert (await self.bot.refusal("get", session_id=session_id)).code == 40401
                continue
            session = self.model.sessions[session_id]
            await self.noted(session_id, self.model.view(session_id))
            events = await self.bot.events(session_id)
            assert [{name: event[name] for name in session.events[0]} for event in events] == session.events
            for revision, view in session.views.items():
                past = await self.bot.session(session_id, revision=revision)
                assert past["state"] == view["state"]
        listed = [item["session_id"] for item in (await self.bot.ask("list"))["items"]]
        assert sorted(listed) == sorted(self.model.sessions)
        told: dict[str, list[tuple[str, int]]] = {}
        for change in await self.bot.feed():
            address = change.subject.split(".", 3)[3]
            told.setdefault(address, []).append((change.body["operation"], change.body["version"]))
        assert told == self.model.told
