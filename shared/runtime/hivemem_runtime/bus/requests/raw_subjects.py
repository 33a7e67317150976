"""Subjects beside the operations, for bytes as they are: what is asked and answered there is no JSON.

Refusals are the same as everywhere: the two headers and the body of an error. Each message becomes a task until its
answer has left for the socket. How many there are at a time is bounded and shared between tenants; past it the answer
is `Overloaded`.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import nats.errors
import orjson
import structlog
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from hivemem_contracts.changes import traceparent_of
from hivemem_contracts.errors import (
    CODE_HEADER,
    HiveError,
    Internal,
    InvalidRequest,
    Overloaded,
    Unavailable,
    error_from_body,
)
from hivemem_contracts.operations import AnyOperation
from hivemem_contracts.subjects import Sender
from hivemem_runtime.bus.requests.admission import Admission, Tenant
from hivemem_runtime.bus.requests.discovery import Endpoint
from hivemem_runtime.bus.requests.outgoing import request_as
from hivemem_runtime.bus.requests.replies import Unanswered, error_body, error_headers, sender_in
from hivemem_runtime.bus.subscriptions import drain, subscribe_direct
from hivemem_runtime.bus.wire import frame, header_lines, write
from hivemem_runtime.policy import Policy
from hivemem_runtime.service import Call

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
    call: Call
    """The sender, and the operation that the bytes are part of."""


@dataclass(frozen=True, slots=True)
class RawAnswer:
    """The answer to a raw request. Header values contain no line breaks."""

    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    data: bytes = b""


Answering = Callable[[RawRequest], Awaitable[RawAnswer]]


class RawSubject:
    """Answers the messages of a subject or a pattern. They are parts of an operation, so its policy applies to them."""

    def __init__(
        self,
        subject: str,
        answer: Answering,
        operation: AnyOperation,
        policy: Policy,
        *,
        name: str,
        queue: str = "",
        under_way: int,
    ) -> None:
        self.endpoint = Endpoint(name, subject, queue, {"summary": f"Bytes of {operation.full_name}."})
        self._subject = subject
        self._answer = answer
        self._operation = operation
        self._policy = policy
        self._queue = queue
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
        if not self._policy.reply_allowed(sender, message.reply):
            self._unanswered.add(message.subject, message.reply)
            return
        held = len(message.data)
        tenant = self._admission.take(sender.tenant if sender else "", message, held, ITEM_BYTES)
        if tenant is not None:
            self._admission.next()
            self._start(self._work(message, sender, tenant, held))
        elif len(self._tasks) < 2 * self._admission.requests_limit:
            detail = "the worker has as many messages of this tenant under way as it may"
            self.endpoint.count(0.0)
            self._start(self._refuse(message, Overloaded(detail, retry_after_ms=OVERLOADED_RETRY_MS)))

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _work(self, message: Msg, sender: Sender | None, tenant: Tenant[Msg], held: int) -> None:
        started = time.perf_counter()
        try:
            answer = await self._answer(self._request(message, sender))
            await self._post(message, answer.headers, answer.data)
        except HiveError as error:
            await self._refuse(message, error)
        except Exception:
            log.exception("a message could not be answered", subject=self._subject)
            await self._refuse(message, Internal("the worker failed; its log says how"))
        finally:
            self.endpoint.count(time.perf_counter() - started)
            self._admission.done(tenant, held, held + ITEM_BYTES)

    def _request(self, message: Msg, sender: Sender | None) -> RawRequest:
        if sender is None:
            raise InvalidRequest(f"subject: {message.subject!r} names no tenant or no agent", field="subject")
        headers = message.headers or {}
        call = Call(sender, self._operation, "", traceparent_of(headers), body=message.data)
        self._policy.permit(call)
        return RawRequest(message.subject, headers, message.data, call)

    async def _refuse(self, message: Msg, error: HiveError) -> None:
        self.endpoint.fail(error)
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
