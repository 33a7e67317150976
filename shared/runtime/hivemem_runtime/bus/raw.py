"""Subjects beside the operations, for bytes as they are: what is asked and answered there is no JSON.

Refusals are the same as everywhere: the two headers and the body of an error. Each message becomes a task until its
answer has left for the socket. How many there are at a time is bounded and shared between tenants; past it the answer
is `Overloaded`.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping
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
    HiveError,
    Internal,
    Overloaded,
    Unavailable,
    error_from_body,
)
from hivemem_contracts.subjects import Sender
from hivemem_runtime.bus.admission import Admission, Tenant
from hivemem_runtime.bus.asking import request_as
from hivemem_runtime.bus.replies import Unanswered, error_body, error_headers, reply_allowed, sender_in
from hivemem_runtime.bus.subscriptions import drain, subscribe_direct
from hivemem_runtime.bus.wire import frame, header_lines, write

log = structlog.get_logger("hivemem.raw")

ITEM_BYTES: Final = 1_048_576
"""A message and its answer together hold about this much."""

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

    def __init__(
        self, subject: str, answer: Answering, *, queue: str = "", under_way: int, own_inboxes: bool = False
    ) -> None:
        self._subject = subject
        self._answer = answer
        self._queue = queue
        self._own_inboxes = own_inboxes
        self._admission = Admission[Msg](under_way, under_way * ITEM_BYTES, 4 * under_way * ITEM_BYTES)
        self._unanswered = Unanswered()
        self._client: Client | None = None
        self._subscription: Subscription | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self, client: Client) -> None:
        self._client = client
        self._subscription = await subscribe_direct(client, self._subject, self._take, queue=self._queue)

    async def stop(self) -> None:
        """Take nothing more, and answer what was taken."""
        if self._subscription is not None:
            subscription, self._subscription = self._subscription, None
            await drain(subscription)
        if self._tasks:
            await asyncio.wait(tuple(self._tasks), timeout=STOP_SECONDS)

    def _take(self, message: Msg) -> None:
        tokens = message.subject.split(".", 4)
        sender = sender_in(tokens)
        if not reply_allowed(sender, message.reply, self._own_inboxes):
            self._unanswered.add(message.subject, message.reply)
            return
        held = len(message.data)
        tenant = self._admission.take(sender.tenant if sender else "", message, held, ITEM_BYTES)
        if tenant is not None:
            self._admission.next()
            self._start(self._work(message, tenant, held))
        elif len(self._tasks) < 2 * self._admission.requests_limit:
            detail = "the worker has as many messages of this tenant under way as it may"
            self._start(self._refuse(message, Overloaded(detail, retry_after_ms=OVERLOADED_RETRY_MS)))

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _work(self, message: Msg, tenant: Tenant[Msg], held: int) -> None:
        try:
            answer = await self._answer(RawRequest(message.subject, message.headers or {}, message.data))
            await self._post(message, answer.headers, answer.data)
        except HiveError as error:
            await self._refuse(message, error)
        except Exception:
            log.exception("a message could not be answered", subject=self._subject)
            await self._refuse(message, Internal("the worker failed; its log says how"))
        finally:
            self._admission.done(tenant, held, held + ITEM_BYTES)

    async def _refuse(self, message: Msg, error: HiveError) -> None:
        await self._post(message, error_headers(error), error_body(error))

    async def _post(self, message: Msg, headers: Mapping[str, str], data: bytes) -> None:
        assert self._client is not None, "it was started"
        answer = frame(message.reply, header_lines(headers), data)
        try:
            await write(self._client, (answer,))
        except (nats.errors.Error, OSError) as error:
            log.warning("an answer could not be sent", subject=self._subject, error=repr(error))

    def status(self) -> dict[str, Any]:
        return {**self._admission.status(), "unanswered": self._unanswered.count}


class NobodyListens(Exception):
    """No subject of that name is served."""


async def ask(
    client: Client, sender: Sender, subject: str, data: bytes, headers: Mapping[str, str], *, timeout_seconds: float
) -> bytes:
    """What another worker answers on a raw subject. Raises the error that it answered, `Unavailable` without an answer,
    and `NobodyListens`."""
    try:
        message = await request_as(client, sender, subject, data, dict(headers), timeout_seconds)
    except nats.errors.NoRespondersError as error:
        raise NobodyListens(subject) from error
    except (nats.errors.Error, TimeoutError) as error:
        raise Unavailable(f"another worker did not answer: {error!r}", retry_after_ms=ASK_RETRY_MS) from error
    if message.headers and CODE_HEADER in message.headers:
        raise error_from_body(orjson.loads(message.data))
    return message.data
