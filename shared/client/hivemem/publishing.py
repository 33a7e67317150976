"""Durable commands: the bus stores the write first, and a worker carries it out later, in order per route."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import orjson
import pydantic
from nats.aio.msg import Msg
from pydantic import BaseModel
from pydantic_core import PydanticSerializationError

from hivemem.connection import Connection
from hivemem.jetstream import JetStreamError, jetstream_result
from hivemem.large_values import WRITES, LargeValueWriter
from hivemem.methods import Command, body_fields, check_arguments, published, set_fields
from hivemem.options import CallOptions
from hivemem.retries import ask
from hivemem_contracts.catalog import SERVICES
from hivemem_contracts.errors import HiveError, InvalidRequest, Overloaded, TooLarge, Unavailable
from hivemem_contracts.identifiers import derived_id, new_id
from hivemem_contracts.json_values import plain_json
from hivemem_contracts.limits import MESSAGE_BYTES, VALUE_BYTES
from hivemem_contracts.model import RequestBody, invalid_request
from hivemem_contracts.nearest_name import suggestion
from hivemem_contracts.operations import AnyOperation
from hivemem_contracts.sizes import check_size
from hivemem_contracts.streams import COMMAND_ID, INGEST
from hivemem_contracts.subjects import command_subject

if TYPE_CHECKING:
    from hivemem.hive import Hive

RETRY_AFTER_MS: Final = 1_000
_FULL: Final = {10023, 10028, 10047, 10077}
"""The JetStream errors for insufficient resources, exceeded memory or storage, and the stream's own limits."""
_MESSAGE_TOO_LARGE: Final = 10054

Body = Mapping[str, Any] | RequestBody


@dataclass(frozen=True, slots=True)
class Receipt:
    """The receipt of a command that the bus has on disk. Its outcome is on the feed, with the message id as `cause`, or
    in DEAD."""

    message_id: str
    sequence: int
    """Its position in the stream of commands. A repetition has another position, and the worker applies it once."""
    route: str
    """The route that orders it: for `sessions.create` without an id, the id that the session will have."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A command, ready to be sent any number of times."""

    what: str
    subject: str
    payload: bytes
    headers: dict[str, str]
    route: str

    @property
    def message_id(self) -> str:
        return self.headers[COMMAND_ID]


def find_operation(name: str) -> AnyOperation:
    """Return the operation of a full name such as `sessions.append`, or raise `InvalidRequest`."""
    service, _, operation = name.partition(".")
    for contract in SERVICES:
        if contract.name == service and (found := contract.get(operation)) is not None:
            return found
    known = [operation.full_name for contract in SERVICES for operation in contract]
    raise InvalidRequest(f"operation: there is no {name!r}{suggestion(name, known)}", field="operation")


def build_body(operation: AnyOperation, body: Body) -> BaseModel:
    """Return the validated body, or raise `InvalidRequest` with the field, as the worker would."""
    wanted: type[BaseModel] = operation.request
    if isinstance(body, RequestBody):
        if not isinstance(body, wanted):
            raise InvalidRequest(f"body: {operation.full_name} takes no {type(body).__name__}", field="body")
        return body
    try:
        model = wanted.model_validate(body)
    except pydantic.ValidationError as error:
        raise invalid_request(error, model=wanted) from error
    return model


async def encode_body(
    hive: "Hive", operation: AnyOperation, body: BaseModel, message_id: str, *, requested: bool
) -> tuple[BaseModel, bytes]:
    """Return a body and its JSON, with references in place of large values, which are stored. Raises `TooLarge`, and
    `InvalidRequest` for text that has no encoding in UTF-8."""
    payload = _encoded(body)
    if len(payload) > VALUE_BYTES and operation in WRITES and hive.options.large_values:
        body = await LargeValueWriter(hive, message_id, requested=requested).body(body)
        payload = _encoded(body)
    check_size("body", len(payload), MESSAGE_BYTES)
    return body, payload


def _encoded(body: BaseModel) -> bytes:
    try:
        return body_fields(body)
    except PydanticSerializationError as error:
        raise _not_json(body) from error


def _not_json(body: BaseModel) -> InvalidRequest:
    """Return the error with the place of the value that cannot be written."""
    try:
        plain_json({name: getattr(body, name) for name in body.model_fields_set})
    except pydantic.ValidationError as error:
        return invalid_request(error)
    return InvalidRequest("body: it cannot be written as JSON", field="body")


def write_headers(header: str, options: CallOptions) -> dict[str, str]:
    headers = {header: options.message_id or new_id()}
    if options.traceparent:
        headers["traceparent"] = options.traceparent
    return headers


async def prepare(
    hive: "Hive", what: Command[..., Any] | str, args: tuple[Any, ...], fields: dict[str, Any]
) -> Prepared:
    """Read the two shapes of `publish`: a bound method and its fields, or a name and a body."""
    if isinstance(what, str):
        (body,) = args
        route, message_id = fields.pop("route", None), fields.pop("message_id", None)
        operation = find_operation(what)
    else:
        operation, options = published(what)
        check_arguments(operation, args, fields)
        body = set_fields(operation, fields)
        route, message_id = None, options.message_id
    if not operation.durable:
        reason = "" if operation.writes else ", because it only reads"
        raise InvalidRequest(f"operation: {operation.full_name} can only be requested{reason}", field="operation")
    options = hive.options if message_id is None else hive.options.replaced({"message_id": message_id})
    # Not `Nats-Msg-Id`: the server would drop a command of another operation or agent with the same id.
    headers = write_headers(COMMAND_ID, options)
    model = build_body(operation, body)
    message_id = headers[COMMAND_ID]
    model, payload = await encode_body(hive, operation, model, message_id, requested=False)
    named = getattr(model, operation.route) if operation.route else None
    if route is not None and named is not None and route != named:
        raise InvalidRequest(f"route: the body says {named!r}, the caller says {route!r}", field=operation.route)
    # Without a route there is no order to keep, and a derived route lets any partition take it. It is the
    # same for a repeated command: the id of the object that the worker creates.
    created = derived_id(operation.full_name, hive.agent, message_id) if operation.route else message_id
    route = named or route or created
    return Prepared(
        operation.full_name,
        command_subject(hive.tenant, hive.agent, operation.service, operation.name, route),
        payload,
        headers,
        route,
    )


async def publish_prepared(connection: Connection, command: Prepared, options: CallOptions) -> Receipt:
    """Publish until the stream acknowledges. Every attempt has the same id, so the worker applies the command once."""
    message = await ask(
        connection, command.subject, command.payload, command.headers, options, f"publishing {command.what}", refusal
    )
    return Receipt(command.message_id, int(jetstream_result(message.data)["seq"]), command.route)


def refusal(message: Msg) -> HiveError | None:
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
            f"{INGEST} accepts no more for now: {error.description}",
            err_code=error.err_code,
            retry_after_ms=RETRY_AFTER_MS,
        )
    if error.code >= 500:
        return Unavailable(f"{INGEST}: {error.description}", err_code=error.err_code, retry_after_ms=RETRY_AFTER_MS)
    return InvalidRequest(f"{INGEST}: {error.description}", field="body", err_code=error.err_code)
