"""Durable commands: the write is kept by the bus first and carried out by a worker later, in order per route."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Protocol, Self, overload

import orjson
import pydantic
from nats.aio.msg import Msg
from pydantic import BaseModel

from hivemem.calling import ask
from hivemem.connection import Connection, JetStreamError, jetstream_result
from hivemem.methods import BoundCommand, body_fields
from hivemem.options import CallOptions
from hivemem_contracts.catalog import SERVICES
from hivemem_contracts.errors import HiveError, InvalidRequest, Overloaded, TooLarge, Unavailable
from hivemem_contracts.identifiers import new_id
from hivemem_contracts.limits import MESSAGE_BYTES
from hivemem_contracts.model import RequestBody, invalid_request
from hivemem_contracts.operations import AnyOperation, Fields, ReplyT, RequestT
from hivemem_contracts.streams import INGEST, MESSAGE_ID
from hivemem_contracts.subjects import command_subject

PIPELINE_PENDING: Final = 256
RETRY_AFTER_MS: Final = 1_000
_FULL: Final = {10023, 10028, 10047, 10077}
"""JetStream: insufficient resources, memory or storage exceeded, the stream's own limits reached."""
_MESSAGE_TOO_LARGE: Final = 10054

Body = Mapping[str, Any] | RequestBody


@dataclass(frozen=True, slots=True)
class Receipt:
    """The bus has the command on disk. What becomes of it shows on the feed, its `cause` the message id, or in DEAD."""

    message_id: str
    sequence: int
    """Its place in the stream of commands."""
    duplicate: bool
    """True where the bus saw this id only just now, and kept nothing new. A later repetition is told by the worker."""
    route: str
    """What it is ordered by: for `sessions.create` without an id, the id that the session will have."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A command, ready to be sent as often as it takes."""

    what: str
    subject: str
    payload: bytes
    headers: dict[str, str]
    route: str

    @property
    def message_id(self) -> str:
        return self.headers[MESSAGE_ID]


def find_operation(name: str) -> AnyOperation:
    """The operation of a full name such as `sessions.append`, or `InvalidRequest`."""
    service, _, operation = name.partition(".")
    for contract in SERVICES:
        if contract.name == service and (found := contract.get(operation)) is not None:
            return found
    raise InvalidRequest(f"operation: there is no {name!r}", field="operation")


def build_body(operation: AnyOperation, body: Body) -> BaseModel:
    """The validated body, or `InvalidRequest` naming the field, as the worker would answer."""
    wanted: type[BaseModel] = operation.request
    if isinstance(body, RequestBody):
        if not isinstance(body, wanted):
            raise InvalidRequest(f"body: {operation.full_name} takes no {type(body).__name__}", field="body")
        return body
    try:
        model = wanted.model_validate(body)
    except pydantic.ValidationError as error:
        raise invalid_request(error) from error
    return model


def encode_body(body: BaseModel) -> bytes:
    """The JSON of a body, or `TooLarge`."""
    payload = body_fields(body)
    if len(payload) > MESSAGE_BYTES:
        raise TooLarge(
            f"body: {len(payload)} bytes, {MESSAGE_BYTES} at most",
            field="body",
            limit=MESSAGE_BYTES,
            actual=len(payload),
        )
    return payload


def write_headers(message_id: str | None, options: CallOptions) -> dict[str, str]:
    headers = {MESSAGE_ID: message_id or new_id()}
    if options.traceparent:
        headers["traceparent"] = options.traceparent
    return headers


class Commands(Protocol):
    """What publishing needs of the client."""

    @property
    def tenant(self) -> str: ...
    @property
    def agent(self) -> str: ...
    @property
    def options(self) -> CallOptions: ...
    @property
    def connection(self) -> Connection: ...


def prepare(
    commands: Commands, what: BoundCommand[..., Any, Any] | str, args: tuple[Any, ...], fields: dict[str, Any]
) -> Prepared:
    """Read the two shapes of `publish`: a bound method and its fields, or a name and a body."""
    if isinstance(what, str):
        (body,) = args
        route, message_id = fields.pop("route", None), fields.pop("message_id", None)
        operation = find_operation(what)
    else:
        body, route, message_id, operation = fields, None, what.message_id, what.operation
    if not operation.durable:
        raise InvalidRequest(f"operation: {operation.full_name} can only be requested", field="operation")
    options = commands.options
    headers = write_headers(message_id or options.message_id, options)
    model = build_body(operation, body)
    named = getattr(model, operation.route) if operation.route else None
    if route is not None and named is not None and route != named:
        raise InvalidRequest(f"route: the body says {named!r}, the caller says {route!r}", field=operation.route)
    # Without a route there is no order to keep, and a route of its own lets any partition take it.
    route = named or route or (new_id() if operation.route else headers[MESSAGE_ID])
    return Prepared(
        operation.full_name,
        command_subject(commands.tenant, commands.agent, operation.service, operation.name, route),
        encode_body(model),
        headers,
        route,
    )


async def publish_prepared(connection: Connection, command: Prepared, options: CallOptions) -> Receipt:
    """Publish until the stream acknowledges. The same id goes with every try, so the bus keeps it once."""
    message = await ask(
        connection, command.subject, command.payload, command.headers, options, f"publishing {command.what}", _refusal
    )
    ack = jetstream_result(message.data)
    return Receipt(command.message_id, int(ack["seq"]), bool(ack.get("duplicate", False)), command.route)


def _refusal(message: Msg) -> HiveError | None:
    try:
        jetstream_result(message.data)
    except JetStreamError as error:
        return _translated(error)
    except orjson.JSONDecodeError:
        return Unavailable(f"{INGEST}: the acknowledgement is not JSON", retry_after_ms=1000)
    return None


def _translated(error: JetStreamError) -> HiveError:
    if error.err_code == _MESSAGE_TOO_LARGE:
        return TooLarge(f"body: {error.description}", field="body")
    if error.err_code in _FULL:
        return Overloaded(
            f"{INGEST} takes no more for now: {error.description}",
            err_code=error.err_code,
            retry_after_ms=RETRY_AFTER_MS,
        )
    if error.code >= 500:
        return Unavailable(f"{INGEST}: {error.description}", err_code=error.err_code, retry_after_ms=RETRY_AFTER_MS)
    return InvalidRequest(f"{INGEST}: {error.description}", field="body", err_code=error.err_code)


class Pipeline:
    """Publishes without waiting for each acknowledgement, with a bounded number of commands in flight.

    Commands of one route are sent one after the other, so that they stay in order whatever fails; those of different
    routes overlap. When a command fails, later ones of its route are not sent. As a context manager it flushes at the
    end; where the block raised, it gives up what is not acknowledged yet.
    """

    def __init__(self, commands: Commands, max_pending: int) -> None:
        if max_pending < 1:
            raise ValueError("max_pending is one or more")
        self._commands = commands
        self._slots = asyncio.Semaphore(max_pending)
        self._last: dict[str, asyncio.Task[Receipt]] = {}
        self._running: set[asyncio.Task[Receipt]] = set()
        self._failed: dict[str, HiveError] = {}

    @overload
    async def publish(
        self, command: BoundCommand[Fields, RequestT, ReplyT], /, *args: Fields.args, **fields: Fields.kwargs
    ) -> asyncio.Future[Receipt]: ...
    @overload
    async def publish(
        self, command: str, body: Body, /, *, route: str | None = None, message_id: str | None = None
    ) -> asyncio.Future[Receipt]: ...
    async def publish(self, command: Any, /, *args: Any, **fields: Any) -> asyncio.Future[Receipt]:
        """Take a command, waiting while `max_pending` are in flight. Answers a future of its receipt.

        Raises `InvalidRequest` and `TooLarge` at once. What fails later is in the future, and raised by `flush`.
        """
        prepared = prepare(self._commands, command, args, fields)
        await self._slots.acquire()
        task = asyncio.create_task(self._send(prepared, self._last.get(prepared.route)))
        self._last[prepared.route] = task
        self._running.add(task)
        task.add_done_callback(lambda done: self._settle(prepared.route, done))
        return task

    async def _send(self, command: Prepared, before: asyncio.Task[Receipt] | None) -> Receipt:
        if before is not None:
            await asyncio.wait((before,))
        failed = self._failed.get(command.route)
        if failed is not None:
            raise Unavailable(
                f"publishing {command.what}: not sent, for an earlier command of route {command.route!r} failed: "
                f"{failed.detail}",
                reason="earlier_failed",
            )
        try:
            return await publish_prepared(self._commands.connection, command, self._commands.options)
        except HiveError as error:
            self._failed[command.route] = error
            raise

    def _settle(self, route: str, task: asyncio.Task[Receipt]) -> None:
        self._slots.release()
        self._running.discard(task)
        if self._last.get(route) is task:
            del self._last[route]
        if not task.cancelled():
            task.exception()  # read here, so that nobody must; `flush` raises it

    async def flush(self) -> None:
        """Wait until everything is acknowledged, or raise the first failure; after that the pipeline goes on anew."""
        while self._running:
            await asyncio.wait(tuple(self._running))
        if self._failed:
            errors = list(self._failed.values())
            self._failed = {}
            if len(errors) > 1:
                errors[0].add_note(f"commands of {len(errors) - 1} more routes failed")
            raise errors[0]

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            await self.flush()
            return
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)
