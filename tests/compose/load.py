"""A load whose writers send each event, by request or durable command, until it is acknowledged, and remember it."""

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import nats.errors
import orjson
from nats.aio.client import Client

from hivemem_contracts.errors import CODE_HEADER
from hivemem_contracts.streams import MESSAGE_ID
from hivemem_contracts.subjects import command_subject, request_subject

TENANT: Final = "acme"
SESSIONS: Final = 16
PAUSE_SECONDS: Final = 0.05
WRITES_MAXIMUM: Final = 5_000
"""The most writes of one writer."""
ANSWER_SECONDS: Final = 2.0
RETRY_SECONDS: Final = 0.1
PATIENCE_SECONDS: Final = 90.0
POLL_SECONDS: Final = 0.05

ASKER: Final = "asker"
PUBLISHER: Final = "publisher"


class Refused(Exception):
    """The fleet answered an error that no retry can fix."""


async def answered(client: Client, subject: str, body: dict[str, Any], message_id: str) -> dict[str, Any]:
    """Send the request with the same id until it is answered; return the answer."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            message = await client.request(
                subject, orjson.dumps(body), timeout=ANSWER_SECONDS, headers={MESSAGE_ID: message_id}
            )
            answer: dict[str, Any] = orjson.loads(message.data)
            if CODE_HEADER not in (message.headers or {}) and "error" not in answer:
                return answer
            # JetStream refuses for a while after its server is back, so its refusals are retried.
            if not answer["error"].get("retryable", "err_code" in answer["error"]):
                raise Refused(f"{subject}: {answer}")
            reason = str(answer)
        except (nats.errors.Error, OSError) as error:
            reason = repr(error)
        assert time.monotonic() < deadline, f"not acknowledged within {PATIENCE_SECONDS} s: {subject}: {reason}"
        await asyncio.sleep(RETRY_SECONDS)


@dataclass
class Writer:
    """Writes events to one session, one after another, so that their order is known."""

    session_id: str
    agent: str
    acknowledged: list[str] = field(default_factory=list[str])
    """The ids of its acknowledged events, in the order in which they were sent."""
    sequences: dict[str, int] = field(default_factory=dict[str, int])
    """The sequence of each event whose answer states it."""
    longest_wait_seconds: float = 0.0

    async def write(self, client: Client) -> None:
        event_id = f"{self.agent}-{len(self.acknowledged) + 1}"
        body = {
            "session_id": self.session_id,
            "event": {"event_id": event_id, "type": "note", "author": self.agent, "content": {"text": event_id}},
        }
        started = time.monotonic()
        answer = await answered(client, self._subject(), body, f"{self.session_id}:{event_id}")
        self.longest_wait_seconds = max(self.longest_wait_seconds, time.monotonic() - started)
        if self.agent == ASKER:
            self.sequences[event_id] = answer["sequence"]
        self.acknowledged.append(event_id)

    def _subject(self) -> str:
        if self.agent == ASKER:
            return request_subject(TENANT, ASKER, "sessions", "append")
        return command_subject(TENANT, PUBLISHER, "sessions", "append", self.session_id)


class Load:
    def __init__(self, client: Client) -> None:
        self._client = client
        self._ending = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self.session_ids = [f"s{number}" for number in range(SESSIONS)]
        self.writers = [Writer(id, agent) for id in self.session_ids for agent in (ASKER, PUBLISHER)]

    def acknowledged(self, agent: str) -> int:
        return sum(len(writer.acknowledged) for writer in self.writers if writer.agent == agent)

    def take_longest_wait(self) -> float:
        """Return the longest wait of any write since the previous call."""
        longest = max(writer.longest_wait_seconds for writer in self.writers)
        for writer in self.writers:
            writer.longest_wait_seconds = 0.0
        return longest

    async def progress(self, writes: int) -> None:
        """Wait until each writer has `writes` more acknowledged events."""
        before = [len(writer.acknowledged) for writer in self.writers]

        def moved() -> bool:
            return all(len(w.acknowledged) - start >= writes for w, start in zip(self.writers, before, strict=True))

        await self.eventually(moved, f"{writes} more writes of each writer")

    async def eventually(self, holds: Callable[[], bool | Awaitable[bool]], what: str) -> None:
        """Wait until the condition holds while the load runs; a writer that fails ends the wait."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            for task in self._tasks:
                if task.done():
                    task.result()
            held = holds()
            if held if isinstance(held, bool) else await held:
                return
            assert time.monotonic() < deadline, f"never within {PATIENCE_SECONDS} s: {what}"
            await asyncio.sleep(POLL_SECONDS)

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None, None]:
        """Create the sessions and write until the block ends; then every write that was begun is acknowledged."""
        for id in self.session_ids:
            body = {"session_id": id, "app_name": "compose", "user_id": "alice"}
            await answered(self._client, request_subject(TENANT, ASKER, "sessions", "create"), body, f"create-{id}")
        self._tasks = [asyncio.create_task(self._keep_writing(writer)) for writer in self.writers]
        try:
            yield
            self._ending.set()
            await asyncio.gather(*self._tasks)
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _keep_writing(self, writer: Writer) -> None:
        while not self._ending.is_set() and len(writer.acknowledged) < WRITES_MAXIMUM:
            await writer.write(self._client)
            await asyncio.sleep(PAUSE_SECONDS)
