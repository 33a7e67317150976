"""The load: many sessions with one writer each, one that many write to, and routes of durable commands."""

import asyncio
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from nats.aio.client import Client

from ..asking import Asking, Refused
from ..journal import Sent
from .journal import Journal

APP: Final = "chaos"
HOT: Final = "hot"
USERS: Final = 4
LIVES: Final = 2
EVENTS_OF_A_LIFE: Final = 3
_REMEMBERED: Final = 20
_THINK_SECONDS: Final = 0.004
"""A pause between two writes of a writer, which leaves the servers under test a processor when they restart."""


@dataclass(frozen=True)
class Size:
    sessions: int = 12
    hot_writers: int = 6
    routes: int = 6
    """The number of sessions that durable commands write to, besides the hot one."""
    mayflies: int = 2
    """The number of writers whose sessions are deleted after a few events, and created again under the same id."""


class Load:
    """`run` writes until `stopping` says so, and returns when every write is acknowledged."""

    def __init__(self, clients: Sequence[Client], journal: Journal, seed: int, stopping: Callable[[], bool]) -> None:
        self._asking = [Asking(client, "sessions") for client in clients]
        self._journal = journal
        self._seed = seed
        self._stopping = stopping

    async def run(self, size: Size) -> None:
        sessions = [f"s{number}" for number in range(size.sessions)]
        routes = [f"r{number}" for number in range(size.routes)]
        names = [HOT, *sessions, *routes]
        for number, name in enumerate(names):
            self._journal.users[name] = f"u{number % USERS}"
        await asyncio.gather(*(self._create(number, name, name) for number, name in enumerate(names)))
        hot = [f"h{number}" for number in range(size.hot_writers)]
        writers = [*((session, session) for session in sessions), *((HOT, writer) for writer in hot)]
        commanders = [*((route, f"c-{route}") for route in routes), (HOT, "c-hot")]
        await asyncio.gather(
            *(self._write(session, writer) for session, writer in writers),
            *(self._command(session, writer) for session, writer in commanders),
            *(self._live_and_die(f"m{number}") for number in range(size.mayflies)),
        )

    def _by(self, writer: str) -> Asking:
        return self._asking[sum(writer.encode()) % len(self._asking)]

    async def _create(self, number: int, session: str, id: str) -> None:
        body = {"session_id": session, "app_name": APP, "user_id": f"u{number % USERS}"}
        await self._by(session).request("create", body, id=f"create-{id}")

    async def _write(self, session: str, writer: str) -> None:
        """Append, now and then set a state key alone, and now and then repeat an old request."""
        choice = random.Random(f"{self._seed}/{writer}")
        recent: list[Sent] = []
        number = 0
        while not self._stopping():
            number += 1
            kind = "state" if choice.random() < 0.15 else "append"
            body = state_body(session, writer, number) if kind == "state" else append_body(session, writer, number)
            sent = Sent(f"{writer}-{number}", kind, session, writer, number, body)
            self._journal.sent.append(sent)
            try:
                sent.answer = await self._by(writer).request(_OPERATIONS[kind], body, sent.id)
                recent = [*recent[-_REMEMBERED:], sent]
                if choice.random() < 0.1:
                    await self._repeat(choice.choice(recent))
            except Refused as error:
                self._journal.findings.append(f"session {session}: refused: {error}")
                return
            await asyncio.sleep(_THINK_SECONDS)

    async def _repeat(self, sent: Sent) -> None:
        again = await self._by(sent.writer).request(_OPERATIONS[sent.kind], sent.body, sent.id)
        self._journal.repeated += 1
        first = sent.answer or {}
        if {**again, "duplicate": True} != {**first, "duplicate": True} or again["duplicate"] is not True:
            self._journal.findings.append(
                f"session {sent.place}: {sent.id} was answered {first} and, sent again, {again}"
            )

    async def _live_and_die(self, writer: str) -> None:
        asking = self._by(writer)
        number = 0
        try:
            while not self._stopping():
                number += 1
                session = f"{writer}-{number}"
                for life in range(1, LIVES + 1):
                    await self._create(number, session, f"{session}-{life}")
                    for place in range(1, EVENTS_OF_A_LIFE + 1):
                        identity = f"{session}-{life}-{place}"
                        event = {"event_id": identity, "type": "note", "content": place}
                        await asking.request("append", {"session_id": session, "event": event}, identity)
                    await asking.request("delete", {"session_id": session}, f"{session}-{life}-delete")
                    self._journal.lives[session] = life
        except Refused as error:
            self._journal.findings.append(f"writer {writer}: refused: {error}")

    async def _command(self, session: str, writer: str) -> None:
        number = 0
        while not self._stopping():
            number += 1
            body = append_body(session, writer, number)
            sent = Sent(f"{writer}-{number}", "append", session, writer, number, body, durable=True)
            self._journal.sent.append(sent)
            try:
                sent.answer = await self._by(writer).command("append", session, body, sent.id)
            except Refused as error:
                self._journal.findings.append(f"route {session}: refused: {error}")
                return
            await asyncio.sleep(_THINK_SECONDS)


_OPERATIONS: Final = {"append": "append", "state": "state_set"}


def append_body(session: str, writer: str, number: int) -> dict[str, Any]:
    """Build an event, every third with a delta of the session's own state, every ninth with one of its user's too."""
    identity = f"{writer}-{number}"
    event = {"event_id": identity, "type": "note", "content": {"writer": writer, "number": number}}
    body: dict[str, Any] = {"session_id": session, "event": event}
    if number % 3 == 0:
        body["state_delta"] = {"last": identity, f"mine-{writer}": number}
    if number % 9 == 0:
        body["state_delta"]["user:last"] = identity
    return body


def state_body(session: str, writer: str, number: int) -> dict[str, Any]:
    return {"session_id": session, "key": f"set-{writer}", "value": number}
