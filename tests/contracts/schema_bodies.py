"""Bodies made from a JSON Schema alone, as a stranger would make them who has nothing else."""

from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from typing import Any, Final, cast

from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from hivemem_contracts.identifiers import format_microseconds

Json = Any
Schema = Mapping[str, Any]
Values = st.SearchStrategy[Json]

WORDS: Final = st.text(st.characters(codec="utf-8"), max_size=3)
JSON: Final[Values] = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(-1e300, 1e300) | WORDS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(WORDS, inner, max_size=2),
    max_leaves=4,
)
TIMES: Final[Values] = st.integers(0, 2**51).map(format_microseconds)
"""A pattern knows no calendar; the format `date-time` does, but most validators do not check it."""

NAMES: Final[Values] = st.from_regex(r"\A[a-z.]{0,9}[a-z](?:/[a-z0-9]{3})?\Z")
"""No pattern can say which names are invisible, look alike or belong to devices."""


def validates(schema: Schema, value: Json) -> bool:
    return bool(cast("Any", Draft202012Validator(schema)).is_valid(value))


def bodies(schema: Schema) -> Values:
    """Return bodies that follow the keywords and the descriptions of the schema."""
    definitions = schema.get("$defs", {})
    return _values(schema, definitions).filter(partial(validates, schema)).filter(_keeps_to_the_descriptions)


def _keeps_to_the_descriptions(body: Json) -> bool:
    """The keys of `state_nulls` are in no delta beside it."""
    return not any(
        set(one.get("state_nulls") or ()) & set(one.get(delta) or ())
        for one in [body, *body.get("appends", ())]
        for delta in ("state_delta", "initial_state")
    )


def _values(schema: Schema, definitions: Mapping[str, Schema]) -> Values:
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        known = {"ArtifactName": NAMES, "LinkTarget": NAMES, "Json": JSON, "Time": TIMES}.get(name)
        return _values(definitions[name], definitions) if known is None else known
    if "allOf" in schema:
        return _values(schema["allOf"][0], definitions)
    choices = schema.get("oneOf") or (schema.get("anyOf") if "type" not in schema else None)
    if choices:
        return st.one_of(*(_values(choice, definitions) for choice in choices))
    if "const" in schema or "enum" in schema:
        return st.sampled_from(schema.get("enum") or [schema["const"]])
    return _KINDS[schema["type"]](schema, definitions) if "type" in schema else JSON


def _object(schema: Schema, definitions: Mapping[str, Schema]) -> Values:
    fields = cast("Mapping[str, Schema]", schema.get("properties", {}))
    required = {name: _values(fields[name], definitions) for name in schema.get("required", ())}
    optional = {name: _values(inner, definitions) for name, inner in fields.items() if name not in required}
    if not isinstance(schema.get("additionalProperties", False), dict):
        return st.fixed_dictionaries(required, optional=optional)
    keys = _values({"type": "string", **schema.get("propertyNames", {})}, definitions)
    most = min(3, schema.get("maxProperties", 3))
    values = _values(schema["additionalProperties"], definitions)
    return st.dictionaries(keys, values, min_size=schema.get("minProperties", 0), max_size=most)


def _array(schema: Schema, definitions: Mapping[str, Schema]) -> Values:
    least = schema.get("minItems", 0)
    most = max(least, min(2, schema.get("maxItems", 2)))
    return st.lists(
        _values(schema["items"], definitions), min_size=least, max_size=most, unique=schema.get("uniqueItems", False)
    )


@lru_cache
def _matching(pattern: str, most: int) -> Values:
    def fits(text: str) -> bool:
        return len(text) <= most and not text.endswith("\n")

    return st.from_regex(pattern, alphabet=st.characters(codec="utf-8")).filter(fits)


def _string(schema: Schema, _: Mapping[str, Schema]) -> Values:
    if "pattern" in schema:
        return _matching(schema["pattern"], schema.get("maxLength", 2**53))
    return st.text(min_size=schema.get("minLength", 0), max_size=min(8, schema.get("maxLength", 8)))


def _integer(schema: Schema, _: Mapping[str, Schema]) -> Values:
    return st.integers(schema.get("minimum", -(2**63)), schema.get("maximum", 2**63 - 1))


def _number(schema: Schema, _: Mapping[str, Schema]) -> Values:
    least = schema.get("minimum", schema.get("exclusiveMinimum"))
    return st.floats(
        least, schema.get("maximum"), exclude_min="exclusiveMinimum" in schema, allow_nan=False, allow_infinity=False
    ) | st.integers(0, 1).filter(partial(validates, schema))


def _boolean(_: Schema, __: Mapping[str, Schema]) -> Values:
    return st.booleans()


def _null(_: Schema, __: Mapping[str, Schema]) -> Values:
    return st.none()


_KINDS: Final[Mapping[str, Callable[[Schema, Mapping[str, Schema]], Values]]] = {
    "array": _array,
    "boolean": _boolean,
    "integer": _integer,
    "null": _null,
    "number": _number,
    "object": _object,
    "string": _string,
}
