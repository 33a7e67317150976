"""Requests: each operation an endpoint of the NATS services protocol, each request a task of its own.

An endpoint of `nats.micro` waits for its handler before the next message, so the handler only hands over: a hundred
requests then share one commit. How many may be under way is bounded; past it the answer is `Overloaded`.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import nats.errors
import orjson
import structlog
from nats.aio.client import Client
from nats.micro import add_service  # pyright: ignore[reportUnknownVariableType]  # its options are untyped
from nats.micro.request import Request
from nats.micro.service import EndpointStats
from nats.micro.service import Service as MicroService
from pydantic import BaseModel

from hivemem_contracts.errors import CODE_HEADER, TEXT_HEADER, HiveError, Internal, Overloaded, TooLarge
from hivemem_contracts.identifiers import new_id
from hivemem_contracts.operations import AnyOperation
from hivemem_contracts.streams import COMMAND_ID, MESSAGE_ID
from hivemem_contracts.subjects import sender_of
from hivemem_runtime.bus.wire import frame, header_lines, plain_frame, send
from hivemem_runtime.ledger.port import Outcome
from hivemem_runtime.service import Call, Service

log = structlog.get_logger("hivemem.requests")

REQUESTS_UNDER_WAY: Final = 2_048
OVERLOADED_RETRY_MS: Final = 100
REPLY_PREFIX: Final = "_INBOX"
"""Answers go to inboxes only: a request cannot make the worker publish as itself anywhere else."""


@dataclass(slots=True)
class Counters:
    """What `$SRV.STATS` adds to the protocol's own figures, which only time the hand-over."""

    requests: int = 0
    errors: int = 0
    seconds: float = 0.0

    def as_data(self) -> dict[str, Any]:
        average = self.seconds / self.requests * 1_000 if self.requests else 0.0
        return {"completed": self.requests, "errors": self.errors, "average_ms": round(average, 3)}


class Requests:
    """Serves a service's operations on a connection."""

    def __init__(
        self,
        client: Client,
        service: Service,
        *,
        version: str,
        health: Callable[[], dict[str, Any]],
        under_way: int = REQUESTS_UNDER_WAY,
    ) -> None:
        self._client = client
        self._service = service
        self._version = version
        self._health = health
        self._limit = under_way
        self._tasks: set[asyncio.Task[None]] = set()
        self._under_way = 0
        self._idle = asyncio.Event()
        self._outbox: list[bytes] = []
        self._counters = {operation.name: Counters() for operation in service.contract}
        self._micro: MicroService | None = None

    async def start(self) -> None:
        contract = self._service.contract
        self._micro = await add_service(
            self._client,
            name=contract.name,
            version=self._version,
            description=contract.summary,
            metadata={"product": "hivemem"},
            queue_group=contract.name,
            stats_handler=self._stats,
        )
        for operation in contract:
            await self._micro.add_endpoint(
                name=operation.name,
                subject=f"hive.req.*.*.{contract.name}.{operation.name}",
                handler=self._handler(operation),
                metadata={"summary": operation.summary},
            )
        await self._client.flush()

    async def stop(self, timeout_seconds: float = 10.0) -> None:
        """Take nothing more, and answer what was taken."""
        if self._micro is not None:
            await _drain(self._micro)
            await self._micro.stop()
            self._micro = None
        self._idle.clear()
        if self._under_way:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._idle.wait(), timeout_seconds)
        await self._flush()
        if not self._client.is_closed:
            await self._client.flush()

    def status(self) -> dict[str, Any]:
        return {"under_way": self._under_way, "limit": self._limit}

    def _stats(self, endpoint: EndpointStats) -> dict[str, Any]:
        return {**self._counters[endpoint.name].as_data(), "health": self._health()}

    def _handler(self, operation: AnyOperation) -> Callable[[Request], Any]:
        async def take(request: Request) -> None:
            self._take(operation, request)

        return take

    def _take(self, operation: AnyOperation, request: Request) -> None:
        """Begin one request without waiting for anything: a single commit is answered when it is done, what takes more
        steps becomes a task."""
        pending = Pending(operation, reply_of(request), time.perf_counter(), request.data)
        if self._under_way >= self._limit:
            detail = f"{self._limit} requests are under way"
            self._send_error(pending, Overloaded(detail, limit=self._limit, retry_after_ms=OVERLOADED_RETRY_MS))
            return
        self._under_way += 1
        try:
            call = pending.call = _call(operation, request)
            body = pending.body = self._service.decode(call, request.data)
            write = self._service.plan(call, body)
            if write is not None:
                future = self._service.ledger.commit(write)
                future.add_done_callback(partial(self._committed, pending, call, body))
                return
        except Exception as error:
            self._refuse(pending, error)
            return
        self._go_on(pending, self._service.run(call, body))

    def _committed(self, pending: "Pending", call: Call, body: BaseModel, future: asyncio.Future[Outcome]) -> None:
        try:
            outcome = future.result()
            pending.call = None  # it is done: nothing that goes wrong from here on is a refusal
            answer = self._service.answer(call, body, outcome)
            if isinstance(answer, BaseModel):
                self._respond(pending, answer)
            else:
                self._go_on(pending, answer)
        except (Exception, asyncio.CancelledError) as error:
            self._refuse(pending, error)

    def _go_on(self, pending: "Pending", answer: Awaitable[BaseModel | bytes]) -> None:
        async def wait() -> None:
            try:
                self._respond(pending, await answer)
            except Exception as error:
                self._refuse(pending, error)

        self._spawn(wait())

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _respond(self, pending: "Pending", reply: BaseModel | bytes) -> None:
        data = reply if isinstance(reply, bytes) else reply.__pydantic_serializer__.to_json(reply)
        if len(data) > self._client.max_payload:
            raise TooLarge(
                f"the answer has {len(data)} bytes, the server passes {self._client.max_payload}",
                field="answer",
                limit=self._client.max_payload,
                actual=len(data),
            )
        if pending.reply:
            self._post(plain_frame(pending.reply, data))
        self._done(pending)

    def _refuse(self, pending: "Pending", error: BaseException) -> None:
        if not isinstance(error, HiveError):
            log.error("request failed", operation=pending.operation.full_name, exc_info=error)
            error = Internal("the worker failed; its log says how")
        if pending.call is not None and self._service.looks_at_refusal(pending.call, error):
            self._spawn(self._look_at_refusal(pending, pending.call, error))
        else:
            self._answer_error(pending, error)

    async def _look_at_refusal(self, pending: "Pending", call: Call, error: HiveError) -> None:
        try:
            await self._service.refused(call, pending.body, error)
        except HiveError as failed:
            error = failed
        except Exception:
            log.exception("a refusal was not looked at", operation=pending.operation.full_name)
            error = Internal("the worker failed; its log says how")
        self._answer_error(pending, error)

    def _answer_error(self, pending: "Pending", error: HiveError) -> None:
        self._counters[pending.operation.name].errors += 1
        self._send_error(pending, error)
        self._done(pending)

    def _send_error(self, pending: "Pending", error: HiveError) -> None:
        if pending.reply:
            text = " ".join(f"{error.name}: {error.detail}".split())
            lines = header_lines({TEXT_HEADER: text, CODE_HEADER: str(error.code)})
            self._post(frame(pending.reply, lines, orjson.dumps(error.body())))

    def _done(self, pending: "Pending") -> None:
        counters = self._counters[pending.operation.name]
        counters.requests += 1
        counters.seconds += time.perf_counter() - pending.started
        self._under_way -= 1
        if not self._under_way:
            self._idle.set()

    def _post(self, answer: bytes) -> None:
        """Answers of the same moment leave together."""
        self._outbox.append(answer)
        if len(self._outbox) == 1:
            self._spawn(self._flush())

    async def _flush(self) -> None:
        frames, self._outbox = self._outbox, []
        if not frames:
            return
        try:
            await send(self._client, frames)
        except nats.errors.Error as error:
            log.warning("answers could not be sent", answers=len(frames), error=repr(error))


@dataclass(slots=True)
class Pending:
    """A request that was taken: where its answer goes (nowhere, if empty) and when it came; then what it says."""

    operation: AnyOperation
    reply: str
    started: float
    body: BaseModel | bytes
    call: Call | None = None


def _call(operation: AnyOperation, request: Request) -> Call:
    tokens = request.subject.split(".")
    headers = request.headers or {}
    message_id = headers.get(COMMAND_ID) or headers.get(MESSAGE_ID) or new_id()
    return Call(sender_of(tokens[2], tokens[3]), operation, message_id, headers.get("traceparent"))


async def _drain(micro: MicroService) -> None:
    """By itself the library would throw away what the server has handed over already, and the callers would wait."""
    endpoints: list[Any] = getattr(micro, "_endpoints")  # noqa: B009  # the library keeps them to itself
    subscriptions = [endpoint._subscription for endpoint in endpoints]  # noqa: SLF001
    endpoints.clear()
    with suppress(nats.errors.Error):
        await asyncio.gather(*(subscription.drain() for subscription in subscriptions))


def reply_of(request: Request) -> str:
    """Where the answer may go: an inbox, or nowhere."""
    # The public wrapper hides it.
    reply: str = request._msg.reply  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
    return reply if reply.startswith(REPLY_PREFIX) else ""
