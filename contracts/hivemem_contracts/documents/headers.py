"""The headers of each kind of message, as JSON Schemas."""

from typing import Final

from hivemem_contracts import streams
from hivemem_contracts.changes import ChangeKind
from hivemem_contracts.documents.portable import Schema
from hivemem_contracts.errors import CODE_HEADER, TEXT_HEADER
from hivemem_contracts.limits import ID_CHARACTERS

_TRACE: Final[Schema] = {"traceparent": {"type": "string", "description": "W3C trace context; it is passed on."}}
_ERROR: Final[Schema] = {
    CODE_HEADER: {"type": "string", "pattern": "^[0-9]+$", "description": "The error's code."},
    TEXT_HEADER: {"type": "string", "description": "The error in words, for people."},
}


def request_headers(*, writes: bool) -> Schema:
    return _headers(_message_id() | _TRACE if writes else _TRACE)


def error_headers() -> Schema:
    return _headers(_ERROR, required=tuple(_ERROR))


def dead_headers() -> Schema:
    own: Schema = {
        streams.DEAD_ERROR: {"type": "string", "description": "The error body as JSON, on one line."},
        streams.DEAD_SUBJECT: {"type": "string", "description": "The subject that the command was published to."},
        streams.DEAD_MESSAGE_ID: {"type": "string", "description": "The command's idempotency id."},
        streams.DEAD_AT: {"type": "string", "format": "date-time", "description": "When it became a dead letter."},
    }
    omitted = "Only if body and headers together exceed the server's payload limit: the length of the body."
    optional: Schema = {
        streams.MESSAGE_ID: {"type": "string", "description": "The id of the dead letter, so that it is stored once."},
        streams.DEAD_BODY_OMITTED: {"type": "string", "pattern": "^[0-9]+$", "description": omitted},
    }
    return _headers(own | _ERROR | optional | _TRACE, required=(*own, *_ERROR))


def change_headers(kind: ChangeKind) -> Schema:
    own: Schema = {
        streams.MESSAGE_ID: {"type": "string", "description": "Equal for each announcement of the same version."},
        "ce-specversion": {"const": "1.0"},
        "ce-id": {"type": "string", "description": f"The {streams.MESSAGE_ID}, with each `%` in it written as `%25`."},
        "ce-type": {"const": f"hivemem.{kind.full_name}"},
        "ce-source": {"const": f"hivemem/{kind.entity}"},
        "ce-subject": {"type": "string", "description": "The address in tokens, with each `%` in it written as `%25`."},
        "ce-time": {"type": "string", "format": "date-time"},
        "content-type": {"const": "application/json"},
    }
    return _headers(own | _TRACE, required=tuple(own))


def _message_id() -> Schema:
    text = "The idempotency key of the write: the same one again gets the first outcome. A fresh one if left out."
    other = (
        f"The key, if there is no {streams.COMMAND_ID}. Not for durable commands: the server deduplicates by it, too."
    )
    key: Schema = {"type": "string", "minLength": 1, "maxLength": ID_CHARACTERS}
    return {streams.COMMAND_ID: key | {"description": text}, streams.MESSAGE_ID: key | {"description": other}}


def _headers(properties: Schema, required: tuple[str, ...] = ()) -> Schema:
    schema: Schema = {"type": "object", "properties": properties}
    return schema | {"required": sorted(required)} if required else schema
