"""A small load: sessions and memories with one writer each, which retries each write until it is acknowledged."""

import asyncio
from collections.abc import Callable
from typing import Any, Final

from nats.aio.client import Client

from ..asking import Asking, Refused
from ..journal import Sent
from .journal import Journal

SESSIONS: Final = tuple(f"s{number}" for number in range(3))
KEYS: Final = tuple(f"k{number}" for number in range(3))
NAMESPACE: Final = "user:power"
BULK: Final = "bulk"
BULK_EVENTS: Final = 80
"""The events of a bulk. With `BULK_BYTES` each they fill more than one block file, so some blocks are not the last one.
"""
BULK_BYTES: Final = 60_000
_BATCH: Final = 10
_THINK_SECONDS: Final = 0.005


class Load:
    """Call `prepare` once; then `run` writes until `stopping` says so. Numbers continue from one run to the next."""

    def __init__(self, client: Client, journal: Journal) -> None:
        self._sessions = Asking(client, "sessions")
        self._memory = Asking(client, "memory")
        self._journal = journal
        self._numbers = dict.fromkeys((*SESSIONS, *KEYS), 0)

    async def prepare(self) -> None:
        for session in (BULK, *SESSIONS):
            body = {"session_id": session, "app_name": "power", "user_id": "alice"}
            await self._sessions.request("create", body, f"create-{session}")
        content = "x" * BULK_BYTES
        for first in range(1, BULK_EVENTS + 1, _BATCH):
            events = [
                {"event_id": bulk_id(first + place), "type": "note", "content": content} for place in range(_BATCH)
            ]
            appends = [{"session_id": BULK, "event": event} for event in events]
            await self._sessions.request("append_batch", {"appends": appends}, f"bulk-{first}", seconds=10)

    async def run(self, stopping: Callable[[], bool]) -> None:
        await asyncio.gather(
            *(self._append(session, stopping) for session in SESSIONS), *(self._put(key, stopping) for key in KEYS)
        )

    async def _append(self, session: str, stopping: Callable[[], bool]) -> None:
        while not stopping():
            id = self._next(session)
            body = {"session_id": session, "event": {"event_id": id, "type": "note", "content": id}}
            await self._write(self._sessions, Sent(id, "append", session, session, 0, body))

    async def _put(self, key: str, stopping: Callable[[], bool]) -> None:
        while not stopping():
            id = self._next(key)
            body: dict[str, Any] = {"namespace": NAMESPACE, "key": key, "value": {"written": id}}
            await self._write(self._memory, Sent(id, "put", key, key, 0, body))

    async def _write(self, asking: Asking, sent: Sent) -> None:
        sent.number = self._numbers[sent.writer]
        self._journal.sent.append(sent)
        try:
            sent.answer = await asking.request(sent.kind, sent.body, sent.id)
        except Refused as error:
            self._journal.findings.append(f"{sent.place}: refused: {error}")
        await asyncio.sleep(_THINK_SECONDS)

    def _next(self, writer: str) -> str:
        self._numbers[writer] += 1
        return f"{writer}-{self._numbers[writer]}"


def bulk_id(number: int) -> str:
    return f"{BULK}-{number}"
