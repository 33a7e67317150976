"""Requests: each operation an endpoint of the NATS services protocol, taken as it is read and begun by turns.

A request is under way from the moment when it is taken until its answer has left for the socket. How many may be, and
with how many bytes, is bounded and shared between tenants; past it the answer is `Overloaded`, before any work.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import structlog
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription
from pydantic import BaseModel

from hivemem_contracts.changes import traceparent_of
from hivemem_contracts.errors import HiveError, Internal, Overloaded, TooLarge
from hivemem_contracts.identifiers import new_id
from hivemem_contracts.operations import AnyOperation
from hivemem_contracts.streams import COMMAND_ID, MESSAGE_ID
from hivemem_contracts.subjects import Sender, sender_of
from hivemem_runtime.bus.requests.admission import Admission, Tenant
from hivemem_runtime.bus.requests.discovery import Discovery, Endpoint
from hivemem_runtime.bus.requests.outbox import Outbox
from hivemem_runtime.bus.requests.replies import Unanswered, error_body, error_headers, sender_in
from hivemem_runtime.bus.subscriptions import drain, settle, subscribe_direct
from hivemem_runtime.bus.wire import frame, header_lines, plain_frame
from hivemem_runtime.ledger.port import Outcome
from hivemem_runtime.service import Call, Service

log = structlog.get_logger("hivemem.requests")

REQUESTS_UNDER_WAY: Final = 4_096
REQUEST_BYTES_UNDER_WAY: Final = 64 * 1024 * 1024
WORKING_SHARE: Final = 4
"""Of the bytes under way, the part that may be worked on or wait for the socket; the rest may only wait for work."""

REQUEST_BYTES: Final = 1_024
"""What a request holds beside its body."""

READ_BYTES: Final = 65_536
WRITE_BYTES: Final = 1_024
"""The least that an answer is expected to hold, of a read and of a write. Expected is about the largest one of late."""

SLICE_SECONDS: Final = 0.002
SLICE_BYTES: Final = 262_144
"""Between two looks at the connection no more work than this is begun."""

OVERLOADED_RETRY_MS: Final = 100


class Requests:
    """Serves a service's operations on a connection."""

    def __init__(
        self,
        client: Client,
        service: Service,
        *,
        version: str,
        health: Callable[[], dict[str, Any]],
        beside: Sequence[Endpoint] = (),
        under_way: int = REQUESTS_UNDER_WAY,
        bytes_under_way: int = REQUEST_BYTES_UNDER_WAY,
    ) -> None:
        """`beside` are subjects that the worker serves apart from its operations, for discovery."""
        self._client = client
        self._service = service
        self._loop = asyncio.get_running_loop()
        self._tasks: set[asyncio.Task[None]] = set()
        self._idle = asyncio.Event()
        self._admission = Admission["Pending"](under_way, bytes_under_way, bytes_under_way // WORKING_SHARE)
        self._outbox = Outbox["Pending"](client, self._left, extra_bytes=bytes_under_way // 8)
        self._unanswered = Unanswered()
        self._overloaded = 0
        self._turning = False
        detail = f"the worker has as many requests of this tenant under way as it may; {under_way} of all tenants"
        overloaded = Overloaded(detail, limit=under_way, retry_after_ms=OVERLOADED_RETRY_MS)
        self._overloaded_error = overloaded
        self._overloaded_lines = header_lines(error_headers(overloaded))
        self._overloaded_body = error_body(overloaded)
        self._subscriptions: list[Subscription] = []
        contract = service.contract
        self._served = [Served.of(operation) for operation in contract]
        self._discovery = Discovery(
            client,
            name=contract.name,
            version=version,
            description=contract.summary,
            endpoints=[*(served.endpoint for served in self._served), *beside],
            health=health,
        )

    async def start(self) -> None:
        for served in self._served:
            take = partial(self._take, served)
            operation, queue = served.operation, served.endpoint.queue_group
            for name in self._service.contract.names_of(operation):
                subject = f"hive.req.*.*.{name}.{operation.name}"
                self._subscriptions.append(await subscribe_direct(self._client, subject, take, queue=queue))
        await self._discovery.start()
        await settle(self._client)

    async def stop(self, timeout_seconds: float = 10.0) -> None:
        """Take nothing more, and answer what was taken."""
        await asyncio.gather(*(drain(subscription) for subscription in self._subscriptions))
        self._subscriptions = []
        await self._discovery.stop()
        self._idle.clear()
        if self._admission.requests:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._idle.wait(), timeout_seconds)
        if not self._client.is_closed:
            await self._client.flush()

    def status(self) -> dict[str, Any]:
        trouble = self._outbox.trouble()
        return {
            **self._admission.status(),
            "overloaded": self._overloaded,
            "unanswered": self._unanswered.count,
            "dropped": self._outbox.dropped,
            **({"trouble": trouble} if trouble else {}),
        }

    def _take(self, served: "Served", message: Msg) -> None:
        """Take one request as it is read, or refuse it; no more than that."""
        reply = message.reply
        tokens = message.subject.split(".", 4)
        sender = sender_in(tokens)
        if reply and not self._service.policy.reply_allowed(sender, reply):
            self._unanswered.add(message.subject, reply)
            reply = ""
        if not reply and not served.operation.writes:
            return
        held, expected = len(message.data) + REQUEST_BYTES, max(served.largest, served.least)
        pending = Pending(served, sender, reply, message, held=held, working=held + expected, expected=expected)
        tenant = self._admission.take(tokens[2], pending, held, expected)
        if tenant is None:
            self._overloaded += 1
            served.endpoint.refuse(self._overloaded_error)
            if reply:
                self._outbox.put_extra(frame(reply, self._overloaded_lines, self._overloaded_body))
            return
        pending.tenant = tenant
        self._turn_soon()

    def _turn_soon(self) -> None:
        if not self._turning:
            self._turning = True
            self._loop.call_soon(self._turn)

    def _turn(self) -> None:
        """Begin waiting requests while there is room. The connection is read between two slices of work."""
        self._turning = False
        deadline, begun = time.perf_counter() + SLICE_SECONDS, 0
        while (pending := self._admission.next()) is not None:
            self._begin(pending)
            begun += pending.held + pending.served.largest
            if begun > SLICE_BYTES or time.perf_counter() > deadline:
                if self._admission.waiting:
                    self._turn_soon()
                return

    def _begin(self, pending: "Pending") -> None:
        """Begin one request without waiting for anything: a single commit is answered when it is done, what takes more
        steps becomes a task."""
        message, pending.message = pending.message, None
        assert message is not None, "it is begun once"
        try:
            call = pending.call = _call(pending, message)
            begun = self._service.begin(call, message.data)
            if begun is None:
                self._go_on(pending, self._service.run(call))
            else:
                begun.commit.add_done_callback(partial(self._committed, pending, call))
        except Exception as error:
            self._refuse(pending, error)

    def _committed(self, pending: "Pending", call: Call, future: asyncio.Future[Outcome]) -> None:
        try:
            outcome = future.result()
            pending.call = None  # it is done: nothing that goes wrong from here on is a refusal
            answer = self._service.answer(call, outcome)
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
        self._answer(pending, plain_frame(pending.reply, data) if pending.reply else b"")

    def _refuse(self, pending: "Pending", error: BaseException) -> None:
        if not isinstance(error, HiveError):
            log.error("request failed", operation=pending.served.operation.full_name, exc_info=error)
            error = Internal("the worker failed; its log says how")
        if pending.call is not None and self._service.looks_at_refusal(pending.call, error):
            self._spawn(self._look_at_refusal(pending, pending.call, error))
        else:
            self._answer_error(pending, error)

    async def _look_at_refusal(self, pending: "Pending", call: Call, error: HiveError) -> None:
        try:
            await self._service.refused(call, error)
        except HiveError as failed:
            error = failed
        except Exception:
            log.exception("a refusal was not looked at", operation=pending.served.operation.full_name)
            error = Internal("the worker failed; its log says how")
        self._answer_error(pending, error)

    def _answer_error(self, pending: "Pending", error: HiveError) -> None:
        pending.served.endpoint.fail(error)
        answer = b""
        if pending.reply:
            answer = frame(pending.reply, header_lines(error_headers(error)), error_body(error))
        self._answer(pending, answer)

    def _answer(self, pending: "Pending", answer: bytes) -> None:
        """Send an answer, empty for none. The request holds its room until the answer has left."""
        size = len(answer)
        pending.served.endpoint.count(time.perf_counter() - pending.started)
        pending.served.learn(size)
        pending.call = None
        self._admission.correct(pending.tenant, size, size - pending.expected)
        pending.held += size
        pending.working += size - pending.expected
        if answer:
            self._outbox.put(answer, pending)
        else:
            self._left((pending,))

    def _left(self, some: Sequence["Pending"]) -> None:
        """Let go of requests whose answers have left, so that others may begin."""
        for pending in some:
            self._admission.done(pending.tenant, pending.held, pending.working)
        if self._admission.waiting:
            self._turn_soon()
        if not self._admission.requests:
            self._idle.set()


@dataclass(slots=True, eq=False)
class Served:
    """An operation, its figures, and how large its answers are."""

    operation: AnyOperation
    endpoint: Endpoint
    least: int
    largest: int = 0
    """The size of the largest answer of late."""

    @classmethod
    def of(cls, operation: AnyOperation) -> "Served":
        service, name = operation.service, operation.name
        endpoint = Endpoint(name, f"hive.req.*.*.{service}.{name}", service, {"summary": operation.summary})
        return cls(operation, endpoint, WRITE_BYTES if operation.writes else READ_BYTES)

    def learn(self, size: int) -> None:
        """Up at once and down slowly, so that a few small answers do not open the way for many large ones."""
        self.largest = max(size, self.largest - ((self.largest - size) >> 6))


@dataclass(slots=True, eq=False)
class Pending:
    """A request that was taken: where its answer goes (nowhere, if empty), when it came, and what it asks for."""

    served: Served
    sender: Sender | None
    reply: str
    message: Msg | None
    held: int
    working: int
    expected: int
    started: float = field(default_factory=time.perf_counter)
    call: Call | None = None
    tenant: "Tenant[Pending]" = field(init=False)


def _call(pending: Pending, message: Msg) -> Call:
    sender = pending.sender or sender_of(*message.subject.split(".", 4)[2:4])
    headers = message.headers or {}
    message_id = headers.get(COMMAND_ID) or headers.get(MESSAGE_ID) or new_id()
    return Call(sender, pending.served.operation, message_id, traceparent_of(headers))
