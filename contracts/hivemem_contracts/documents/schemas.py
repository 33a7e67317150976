"""JSON Schemas of every body, and of the error body that can answer any request."""

from collections.abc import Iterable
from typing import Any, Final, cast

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, models_json_schema

from hivemem_contracts.catalog import CHANGES, SERVICES
from hivemem_contracts.changes import Change
from hivemem_contracts.documents.portable import Schema, portable
from hivemem_contracts.errors import ALL_ERRORS, HiveError
from hivemem_contracts.windows.models import WindowResource

_DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"


class _WithoutFieldTitles(GenerateJsonSchema):
    """Leaves out the titles of fields, which only repeat their names."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


def schema_of(model: type[BaseModel]) -> Schema:
    """Return the self-contained schema of one model."""
    return portable(model.model_json_schema(schema_generator=_WithoutFieldTitles), "#/$defs")


def body_models() -> list[type[BaseModel]]:
    """Return the models of all requests, replies and changes."""
    models: list[type[BaseModel]] = [Change]
    for service in SERVICES:
        for operation in service:
            models += [operation.request, operation.reply]
    return models + [kind.value for kind in CHANGES if kind.value is not None]


def shared_schemas(models: Iterable[type[BaseModel]], reference: str) -> dict[str, Schema]:
    """Return the schemas of many models and their parts, by name; `reference` is the prefix of their references."""
    inputs = [(model, "validation") for model in dict.fromkeys(models)]
    _, together = models_json_schema(
        cast("Any", inputs), ref_template=reference + "/{model}", schema_generator=_WithoutFieldTitles
    )
    return cast("dict[str, Schema]", portable(together, reference)["$defs"])


def error_schema() -> Schema:
    """Return the schema of the error body. Its codes stay open, because a newer fleet may have more of them."""
    return {
        "title": "Error",
        "description": "The body of an error reply. The code is the contract, the text is for people.",
        "type": "object",
        "required": ["error"],
        "properties": {
            "error": {
                "type": "object",
                "required": ["code", "name", "detail", "retryable", "context"],
                "properties": {
                    "code": {"type": "integer"},
                    "name": {"type": "string"},
                    "detail": {"type": "string", "description": "For people; it may change."},
                    "retryable": {"type": "boolean", "description": "The same call may succeed later."},
                    "context": {"type": "object", "description": "What the description of the code promises."},
                },
                "anyOf": [*map(_described, ALL_ERRORS), {"title": "Another", "description": "Of a newer fleet."}],
            }
        },
    }


def schema_files() -> dict[str, Schema]:
    """Return each schema by the name of its file."""
    files = {"change": schema_of(Change), "error": error_schema(), "window.resource": schema_of(WindowResource)}
    for service in SERVICES:
        for operation in service:
            files[f"{operation.full_name}.request"] = schema_of(operation.request)
            files[f"{operation.full_name}.reply"] = schema_of(operation.reply)
    for change in CHANGES:
        value = {"type": "null"} if change.value is None else schema_of(change.value)
        files[f"change.{change.full_name}"] = value | {"title": f"The value of {change.full_name}"}
    return {f"{name}.json": {"$schema": _DIALECT} | schema for name, schema in files.items()}


def summary_of(documented: type) -> str:
    return " ".join((documented.__doc__ or "").split())


def _described(error: type[HiveError]) -> Schema:
    fixed = {"code": error.code, "name": error.__name__, "retryable": error.retryable}
    return {
        "title": error.__name__,
        "description": summary_of(error),
        "properties": {name: {"const": value} for name, value in fixed.items()},
    }
