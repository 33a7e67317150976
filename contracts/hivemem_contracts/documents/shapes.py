"""The fields of bodies with their types in a few characters, for the tables of the wire page."""

import json
from collections.abc import Callable
from functools import cache
from typing import Any, Final, cast

from pydantic import BaseModel

from hivemem_contracts.documents.portable import Schema
from hivemem_contracts.documents.schemas import body_models, shared_schemas

_WORDS: Final = {
    "boolean": ("bool", "`true` or `false`."),
    "integer": ("int", "An integer of 64 bits."),
    "number": ("number", "A finite number."),
    "object": ("object", "Any object."),
    "string": ("text", "Any text."),
}


@cache
def definitions() -> dict[str, Schema]:
    """Return the schemas of all bodies, their parts and the named types."""
    return shared_schemas(body_models(), "#/$defs")


def named_types() -> dict[str, Schema]:
    """Return the schemas of the named types; all others are of objects with fields."""
    return {name: schema for name, schema in sorted(definitions().items()) if schema.get("type") != "object"}


def words() -> list[tuple[str, str]]:
    """Return the words of the types with their meanings."""
    return [*_WORDS.values(), *((name, schema["description"]) for name, schema in named_types().items())]


def fields(model: type[BaseModel]) -> str:
    """Return the fields of a model, such as `{key: Id, limit?: int = 50}`."""
    schema = definitions()[model.__name__]
    required = schema.get("required", ())
    shown = (_field(name, field, name in required) for name, field in schema.get("properties", {}).items())
    return "{" + ", ".join(shown) + "}"


def _field(name: str, field: Schema, required: bool) -> str:
    if required:
        return f"{name}: {_type(field)}"
    kinds = " or ".join(kind for kind in choices(field, _one) if kind != "null")
    default = field.get("default")
    return f"{name}?: {kinds}" + (
        "" if default is None or default is False or default == {} else f" = {json.dumps(default)}"
    )


def _type(schema: Schema) -> str:
    return " or ".join(choices(schema, _one))


def _one(schema: Schema) -> str:
    kind = schema["type"]
    if kind == "array":
        return f"[{_type(schema['items'])}]"
    if kind == "object" and isinstance(schema.get("additionalProperties"), dict):
        keys = _type({"type": "string", **schema.get("propertyNames", {})})
        return f"{{{keys}: {_type(schema['additionalProperties'])}}}"
    return kind if kind == "null" else _WORDS[kind][0]


def choices(schema: Schema, one: Callable[[Schema], str]) -> list[str]:
    """Return the types that a value may have, each once; `one` writes a type that is neither a choice nor named."""
    if "allOf" in schema:
        return choices(schema["allOf"][0], one)
    inner = cast("list[Schema] | None", schema.get("anyOf") or schema.get("oneOf"))
    if inner:
        return list(dict.fromkeys(name for choice in inner for name in choices(choice, one)))
    if "$ref" in schema:
        return [schema["$ref"].rpartition("/")[2]]
    values = cast("list[Any]", schema.get("enum") or ([schema["const"]] if "const" in schema else []))
    return [json.dumps(value) for value in values] or [one(schema)]
