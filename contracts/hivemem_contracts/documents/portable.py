"""Makes pydantic's schemas valid for every validator: standard keywords only, and one meaning in all of them."""

from collections.abc import Iterator, Mapping
from typing import Any, Final, cast

from hivemem_contracts.limits import JSON_DEPTH
from hivemem_contracts.named_types import NAMED
from hivemem_contracts.sizes import MAX_BYTES

Schema = dict[str, Any]

_PYDANTICS_JSON: Final = "JsonValue"
_JSON: Final = "Json"
_ANY_JSON: Final[Schema] = {
    "description": f"Any JSON with integers of 64 bits and finite numbers, nested at most {JSON_DEPTH} levels deep.",
    "anyOf": [{"type": kind} for kind in ("array", "boolean", "null", "number", "object", "string")],
}
"""Types by name, since generators of types take a schema without any for an object."""

_SCHEMAS: Final = ("additionalProperties", "items", "not", "propertyNames")
_LISTS_OF_SCHEMAS: Final = ("allOf", "anyOf", "oneOf")
_MAPS_OF_SCHEMAS: Final = ("$defs", "properties")
_OPENAPI_ONLY: Final = "discriminator"
_OF_A_USE: Final = ("default", "description")
"""The keywords about the use of a named type, as opposed to the type itself."""


def portable(schema: Schema, reference: str) -> Schema:
    """Return the schema with its named types among its `$defs`; `reference` is the prefix of references to them."""
    walk = _Walk(reference)
    result = walk.schema(schema)
    definitions = cast("dict[str, Schema]", result.pop("$defs", {}))
    if definitions.pop(_PYDANTICS_JSON, None) is not None:
        walk.named[_JSON] = _ANY_JSON
    taken = definitions.keys() & walk.named.keys()
    assert not taken, f"types and models of the same name: {sorted(taken)}"
    definitions |= walk.named
    return result | ({"$defs": definitions} if definitions else {})


class _Walk:
    """Rewrites a schema and the schemas in it, and collects the named types."""

    def __init__(self, reference: str) -> None:
        self.named: dict[str, Schema] = {}
        self._reference = reference

    def schema(self, schema: Mapping[str, Any]) -> Schema:
        rewritten = dict(self._keywords(_keys_checked(schema)))
        if NAMED in rewritten:
            rewritten = self._use(rewritten)
        if "$ref" not in rewritten:
            return _ending_where_its_pattern_ends(_limited(rewritten))
        target = rewritten.pop("$ref")
        if target.endswith(f"/{_PYDANTICS_JSON}"):
            target = f"{self._reference}/{_JSON}"
        # Dialects older than 2020-12 ignore the keywords beside a reference.
        beside = _limited(rewritten)
        return {"allOf": [{"$ref": target}], **beside} if beside else {"$ref": target}

    def _keywords(self, schema: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
        for keyword, value in schema.items():
            if keyword == _OPENAPI_ONLY:
                continue
            if keyword in _SCHEMAS and isinstance(value, dict):
                yield keyword, self.schema(cast("Schema", value))
            elif keyword in _LISTS_OF_SCHEMAS:
                yield keyword, [self.schema(item) for item in value]
            elif keyword in _MAPS_OF_SCHEMAS:
                yield keyword, {name: self.schema(item) for name, item in value.items()}
            else:
                yield keyword, value

    def _use(self, schema: Schema) -> Schema:
        """Return a reference to a named type, with the keywords of its use."""
        named = schema.pop(NAMED)
        use: Schema = {keyword: schema.pop(keyword) for keyword in _OF_A_USE if keyword in schema}
        schema.pop(MAX_BYTES, None)
        definition = _ending_where_its_pattern_ends({"type": "string"} | schema | {"description": named["description"]})
        known = self.named.setdefault(named["name"], definition)
        assert known == definition, f"two types are named {named['name']}"
        return {"$ref": f"{self._reference}/{named['name']}", **use}


def _keys_checked(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Require a pattern of every key, where pydantic's `patternProperties` accepts any value for other keys."""
    patterns = schema.get("patternProperties")
    if not patterns:
        return schema
    ((pattern, values),) = patterns.items()
    rest = {keyword: value for keyword, value in schema.items() if keyword != "patternProperties"}
    return rest | {"additionalProperties": values, "propertyNames": {**schema["propertyNames"], "pattern": pattern}}


def _limited(schema: Schema) -> Schema:
    """Say in words how many bytes a value may have, for which JSON Schema has no keyword."""
    limit = schema.pop(MAX_BYTES, None)
    if limit is not None:
        said = f"{schema['description']} " if "description" in schema else ""
        schema["description"] = f"{said}At most {limit:,} bytes as JSON in UTF-8."
    return schema


def _ending_where_its_pattern_ends(schema: Schema) -> Schema:
    """Refuse a final line feed, which Python allows at the `$` of a pattern."""
    if not schema.get("pattern", "").endswith("$"):
        return schema
    refused = schema["not"]["pattern"] + "|" if "not" in schema else ""
    return schema | {"not": {"pattern": f"{refused}\\n$"}}
