"""Subjects beside the operations, for bytes as they are: what is asked and answered there is no JSON.

Refusals are the same as everywhere: the two headers and the body of an error. Each message becomes a task, and how
many there are at a time is bounded; past it the answer is `Overloaded`.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

import nats.errors
import orjson
import structlog
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from hivemem_contracts.errors import (
    CODE_HEADER,
    TEXT_HEADER,
    HiveError,
    Internal,
    Overloaded,
    Unavailable,
    error_from_body,
)
from hivemem_runtime.bus.subscriptions import subscribe
from hivemem_runtime.bus.wire import frame, header_lines, send

log = structlog.get_logger("hivemem.raw")

REPLY_PREFIX: Final = "_INBOX"
OVERLOADED_RETRY_MS: Final = 50
STOP_SECONDS: Final = 10.0
ASK_RETRY_MS: Final = 200


@dataclass(frozen=True, slots=True)
class RawRequest:
    """A message as it came."""

    subject: str
    headers: Mapping[str, str]
    data: bytes


@dataclass(frozen=True, slots=True)
class RawAnswer:
    """What goes back; the values of its headers hold no line breaks."""

    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    data: bytes = b""


Answering = Callable[[RawRequest], Awaitable[RawAnswer]]


class RawSubject:
    """Answers the messages of one subject, or of those that a pattern matches."""

    def __init__(self, subject: str, answer: Answering, *, queue: str = "", under_way: int) -> None:
        self._subject = subject
        self._answer = answer
        self._queue = queue
        self._limit = under_way
        self._client: Client | None = None
        self._subscription: Subscription | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self, client: Client) -> None:
        self._client = client
        self._subscription = await subscribe(client, self._subject, self._take, queue=self._queue)

    async def stop(self) -> None:
        """Take nothing more, and answer what was taken."""
        if self._subscription is not None:
            drained: Any = self._subscription  # the library leaves the types of draining open
            self._subscription = None
            with suppress(nats.errors.Error):  # of a connection that is closed already
                await drained.drain()
        if self._tasks:
            await asyncio.wait(tuple(self._tasks), timeout=STOP_SECONDS)

    async def _take(self, message: Msg) -> None:
        if len(self._tasks) >= self._limit:
            detail = f"{self._limit} messages are under way"
            await self._post(message, *_refusal(Overloaded(detail, retry_after_ms=OVERLOADED_RETRY_MS)))
            return
        task = asyncio.create_task(self._work(message))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _work(self, message: Msg) -> None:
        try:
            answer = await self._answer(RawRequest(message.subject, message.headers or {}, message.data))
        except HiveError as error:
            await self._post(message, *_refusal(error))
        except Exception:
            log.exception("a message could not be answered", subject=self._subject)
            await self._post(message, *_refusal(Internal("the worker failed; its log says how")))
        else:
            await self._post(message, answer.headers, answer.data)

    async def _post(self, message: Msg, headers: Mapping[str, str], data: bytes) -> None:
        assert self._client is not None, "it was started"
        if not message.reply.startswith(REPLY_PREFIX):
            return
        answer = frame(message.reply, header_lines(headers), data)
        try:
            await send(self._client, (answer,))
        except nats.errors.Error as error:
            log.warning("an answer could not be sent", subject=self._subject, error=repr(error))

    def status(self) -> dict[str, Any]:
        return {"under_way": len(self._tasks), "limit": self._limit}


class NobodyListens(Exception):
    """No subject of that name is served."""


async def ask(
    client: Client, subject: str, data: bytes, headers: Mapping[str, str], *, timeout_seconds: float
) -> bytes:
    """What another worker answers on a raw subject. Raises the error that it answered, `Unavailable` without an answer,
    and `NobodyListens`."""
    try:
        message = await client.request(subject, data, timeout=timeout_seconds, headers=dict(headers))
    except nats.errors.NoRespondersError as error:
        raise NobodyListens(subject) from error
    except (nats.errors.Error, TimeoutError) as error:
        raise Unavailable(f"another worker did not answer: {error!r}", retry_after_ms=ASK_RETRY_MS) from error
    if message.headers and CODE_HEADER in message.headers:
        raise error_from_body(orjson.loads(message.data))
    return message.data


def _refusal(error: HiveError) -> tuple[Mapping[str, str], bytes]:
    text = " ".join(f"{error.name}: {error.detail}".split())
    return {TEXT_HEADER: text, CODE_HEADER: str(error.code)}, orjson.dumps(error.body())
