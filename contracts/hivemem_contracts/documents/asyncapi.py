"""The AsyncAPI 3 document of the fleet, as its workers see it: they receive requests and send changes."""

from collections.abc import Iterator
from importlib.metadata import version
from typing import Any, Final

from pydantic import BaseModel

from hivemem_contracts import streams
from hivemem_contracts.catalog import CHANGES, SERVICES
from hivemem_contracts.changes import Change, ChangeKind
from hivemem_contracts.documents import raw
from hivemem_contracts.documents.headers import change_headers, dead_headers, error_headers, request_headers
from hivemem_contracts.documents.portable import Schema
from hivemem_contracts.documents.schemas import body_models, error_schema, shared_schemas
from hivemem_contracts.operations import COMMON_ERRORS, WRITE_ERRORS, AnyOperation
from hivemem_contracts.subjects import KEY_MARKER

_SCHEMAS: Final = "#/components/schemas"
_TOKEN: Final = "One token: UTF-8 bytes outside `[A-Za-z0-9_-]` percent-escaped, empty text a lone `%`."
_PARAMETERS: Final = {
    "tenant": f"The owner of the data. {_TOKEN}",
    "agent": f"Who acts. {_TOKEN}",
    "route": f"Durable commands of one route keep their order. {_TOKEN}",
    "service": "The service of the command.",
    "operation": "The operation of the command.",
    "session_id": f"The session. {_TOKEN}",
    "app_name": f"The app. {_TOKEN}",
    "scope": "The kind of shared scope.",
    "scope_id": f"The id of the user, app or project. {_TOKEN}",
    "namespace": f"The namespace, each of its segments one token, with a dot between them. {_TOKEN}",
    "key": f"The key in the namespace, or of the window. {_TOKEN}",
    "namespace_and_key": "The namespace, each of its segments one token, with a dot between them; for a key in it "
    f"followed by `.{KEY_MARKER}.` and the key. {_TOKEN}",
    "name": f"The file's name. {_TOKEN}",
    "receipt": f"The receipt of the erasure. {_TOKEN}",
    "agent_id": f"The registered agent. {_TOKEN}",
    "number": f"The number of the cycle. {_TOKEN}",
    "workspace_id": f"The workspace. {_TOKEN}",
    "workflow": f"The name of the workflow. {_TOKEN}",
    "run_id": f"The run. {_TOKEN}",
    "resource": f"The window resource. {_TOKEN}",
    **raw.PARAMETERS,
}
_CHOICES: Final = {"scope": ["app", "project", "user"]}


def asyncapi_document() -> Schema:
    return {
        "asyncapi": "3.0.0",
        "info": {
            "title": "Hivemem",
            "version": version("hivemem-contracts"),
            "description": "The shared memory of a fleet of AI agents on NATS, as its workers see it: what they "
            "receive an agent sends, and what they send an agent receives. `contract.md` says the same in prose.",
            "license": {"name": "Apache-2.0"},
        },
        "defaultContentType": "application/json",
        "servers": {"fleet": _server()},
        "channels": _channels(),
        "operations": _operations(),
        "components": {"messages": _messages(), "schemas": _schemas()},
    }


def _server() -> Schema:
    version = ".".join(map(str, streams.MINIMUM_SERVER))
    return {
        "host": "{host}:{port}",
        "protocol": "nats",
        "description": f"A NATS server of at least {version} with JetStream.",
        "variables": {
            "host": {"description": "The address of the fleet's server."},
            "port": {"default": "4222", "description": "The port for clients."},
        },
    }


def _all_operations() -> Iterator[AnyOperation]:
    for service in SERVICES:
        yield from service


def _channels() -> Schema:
    channels: Schema = {}
    for operation in _all_operations():
        name = operation.full_name
        channels[name] = _channel(f"hive.req.{{tenant}}.{{agent}}.{name}", [f"{name}.request"])
        channels[f"{name}.reply"] = _reply_channel(name)
        if operation.durable:
            address = f"hive.in.{{tenant}}.{{agent}}.{name}.{{route}}"
            channels[f"{name}.durable"] = _channel(address, [f"{name}.request"], f"Stream {streams.INGEST}.")
    for name, address in raw.ADDRESSES.items():
        channels[name] = _channel(address, [f"{name}.request"], "Raw bytes.")
        channels[f"{name}.reply"] = _reply_channel(name)
    for kind in CHANGES:
        address = _change_address(kind)
        names = [f"change.{other.full_name}" for other in CHANGES if _change_address(other) == address]
        channels[f"change.{kind.entity}"] = _channel(address, names, f"Stream {streams.CHANGES}.")
    channels["dead"] = _channel("hive.dead.{tenant}.{agent}.{service}.{operation}", ["dead"], f"Stream {streams.DEAD}.")
    return channels


def _reply_channel(name: str) -> Schema:
    return {
        "address": None,
        "description": "The reply subject of the request, below the agent's own inbox prefix.",
        "messages": {"reply": _message(f"{name}.reply"), "error": _message("error")},
    }


def _change_address(kind: ChangeKind) -> str:
    tokens = ["_and_".join(kind.address)] if kind.key_optional else list(kind.address)
    tokens = [f"{{{name}}}" for name in tokens]
    if kind.keyed and not kind.key_optional:
        tokens.insert(-1, KEY_MARKER)
    return ".".join(["hive.chg.{tenant}", kind.entity, *tokens])


def _channel(address: str, messages: list[str], description: str | None = None) -> Schema:
    parameters = {token[1:-1]: _parameter(token[1:-1]) for token in address.split(".") if token.startswith("{")}
    channel: Schema = {
        "address": address,
        "parameters": parameters,
        "messages": {name: _message(name) for name in messages},
    }
    if description:
        channel["description"] = description
    return channel


def _parameter(name: str) -> Schema:
    choices = _CHOICES.get(name)
    return {"description": _PARAMETERS[name]} | ({"enum": choices} if choices else {})


def _message(name: str) -> Schema:
    return {"$ref": f"#/components/messages/{name}"}


def _operations() -> Schema:
    operations: Schema = {}
    for operation in _all_operations():
        operations[operation.full_name] = _request(operation)
        if operation.durable:
            operations[f"{operation.full_name}.durable"] = _durable(operation)
    operations |= raw.raw_operations()
    for kind in CHANGES:
        channel = f"change.{kind.entity}"
        operations[f"change.{kind.full_name}"] = {
            "action": "send",
            "channel": {"$ref": f"#/channels/{channel}"},
            "summary": kind.summary,
            "messages": [{"$ref": f"#/channels/{channel}/messages/change.{kind.full_name}"}],
        }
    operations["dead"] = {
        "action": "send",
        "channel": {"$ref": "#/channels/dead"},
        "summary": "Keep a durable command that could never succeed.",
    }
    return operations


def _request(operation: AnyOperation) -> Schema:
    reply = f"#/channels/{operation.full_name}.reply"
    common = WRITE_ERRORS if operation.writes else COMMON_ERRORS
    errors = sorted({*operation.errors, *common}, key=lambda error: error.code)
    return {
        "action": "receive",
        "channel": {"$ref": f"#/channels/{operation.full_name}"},
        "summary": operation.summary,
        "bindings": {"nats": {"queue": operation.service, "bindingVersion": "0.1.0"}},
        "reply": {
            "channel": {"$ref": reply},
            "messages": [{"$ref": f"{reply}/messages/reply"}, {"$ref": f"{reply}/messages/error"}],
        },
        "x-writes": operation.writes,
        "x-errors": [error.__name__ for error in errors],
    }


def _durable(operation: AnyOperation) -> Schema:
    route = f"The route is the `{operation.route}`." if operation.route else "The publisher chooses the route."
    return {
        "action": "receive",
        "channel": {"$ref": f"#/channels/{operation.full_name}.durable"},
        "summary": operation.summary,
        "description": f"Published and done later, in order per route. {route}",
    }


def _messages() -> Schema:
    messages: Schema = {}
    for operation in _all_operations():
        messages[f"{operation.full_name}.request"] = {
            "headers": request_headers(writes=operation.writes),
            "payload": _payload(operation.request),
            "summary": operation.summary,
        }
        messages[f"{operation.full_name}.reply"] = {"payload": _payload(operation.reply)}
    messages |= raw.raw_messages()
    for kind in CHANGES:
        messages[f"change.{kind.full_name}"] = {
            "headers": change_headers(kind),
            "payload": _change_payload(kind),
            "summary": kind.summary,
        }
    messages["error"] = {
        "headers": error_headers(),
        "payload": {"$ref": f"{_SCHEMAS}/Error"},
        "summary": "The request was refused or failed.",
    }
    messages["dead"] = {
        "headers": dead_headers(),
        "payload": {"description": "The exact original body; empty if it was left out."},
        "contentType": "application/octet-stream",
        "summary": "A durable command that could never succeed.",
    }
    return {name: {"name": name, **message} for name, message in messages.items()}


def _payload(model: type[BaseModel]) -> Schema:
    return {"$ref": f"{_SCHEMAS}/{model.__name__}"}


def _change_payload(kind: ChangeKind) -> Schema:
    empty: Schema = {"type": "null"}
    value = empty if kind.value is None else {"anyOf": [_payload(kind.value), empty]}
    fixed = {"entity": {"const": kind.entity}, "operation": {"const": kind.operation}, "value": value}
    return {"allOf": [_payload(Change), {"type": "object", "properties": fixed}]}


def _schemas() -> dict[str, Any]:
    return shared_schemas(body_models(), _SCHEMAS) | {"Error": error_schema()}
