"""Values of Python as JSON: converted where there is one obvious way, and refused by name elsewhere.

Only values that a program passes as Python objects come here, and only if they are not JSON already. A body from the
wire is JSON.
"""

import dataclasses
from collections.abc import Iterable, Mapping
from datetime import date, datetime
from decimal import Decimal
from enum import Enum
from math import isfinite
from typing import TYPE_CHECKING, Any, Final, cast
from uuid import UUID

from pydantic import BaseModel, GetCoreSchemaHandler, JsonValue, ValidationError, ValidatorFunctionWrapHandler
from pydantic_core import CoreSchema, PydanticCustomError, PydanticSerializationError, core_schema

from hivemem_contracts.identifiers import format_time
from hivemem_contracts.limits import JSON_DEPTH

_Place = tuple[str | int, ...]

_REFUSED: Final[tuple[tuple[tuple[type, ...], str], ...]] = (
    ((bytes, bytearray, memoryview), "bytes are not JSON: save them as an artifact"),
    ((set, frozenset), "a set is not JSON: pass a list"),
    ((Decimal,), "a Decimal is not JSON: pass a float, or text"),
)
_NUMPY_KINDS: Final = ("b", "i", "u", "f", "U")
"""The kinds of numpy's types whose values are JSON: truth values, numbers and text."""


if TYPE_CHECKING:
    Json = Any
else:
    Json = JsonValue
"""JSON in a request. Type checkers accept any object for it, since other objects than JSON are converted."""


class FromPython:
    """Annotates JSON that programs pass as Python objects: tuples, dataclasses, times and so on are converted."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        schema = handler(source)
        python = core_schema.no_info_wrap_validator_function(_validated, schema)
        return core_schema.json_or_python_schema(json_schema=schema, python_schema=python)


def _validated(value: object, validate: ValidatorFunctionWrapHandler) -> Any:
    try:
        found: Any = validate(value)
    except ValidationError:
        return validate(plain_json(value))
    _check_keys(found)
    return found


def _check_keys(found: object) -> None:
    """Refuse keys that are no text: pydantic would write others in their place."""
    if isinstance(found, dict):
        for key in cast("dict[str, object]", found):
            _text(key, ())


def plain_json(value: object, place: _Place = ()) -> Any:
    """Return a value as plain JSON. Raises pydantic's `ValidationError` with the place of the part that is not JSON."""
    if len(place) > JSON_DEPTH:
        raise _refusal(place[:1], value, f"is nested deeper than {JSON_DEPTH} levels, or contains itself")
    if isinstance(value, Enum):
        return plain_json(value.value, place)
    if isinstance(value, float) and not isfinite(value):
        raise _refusal(place, value, f"a number is finite, got {value}")
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, str):
        return _text(value, place)
    if isinstance(value, list | tuple):
        items = enumerate(cast("Iterable[object]", value))
        return [plain_json(item, (*place, index)) for index, item in items]
    if isinstance(value, Mapping):
        return _object(cast("Mapping[object, object]", value).items(), place)
    return _converted(value, place)


def _converted(value: object, place: _Place) -> Any:
    """Convert an object whose type is not a type of JSON."""
    if isinstance(value, BaseModel):
        return _of_model(value, place)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _object(((field.name, getattr(value, field.name)) for field in dataclasses.fields(value)), place)
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise _refusal(place, value, "a time needs its offset from UTC: datetime.now(UTC), not datetime.now()")
        return format_time(value)
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, UUID):
        return str(value)
    plain = _from_numpy(value)
    if plain is not value:
        return plain_json(plain, place)
    kind = type(value)
    problems = (problem for kinds, problem in _REFUSED if issubclass(kind, kinds))
    raise _refusal(place, value, next(problems, f"{kind.__qualname__} is not JSON"))


def _from_numpy(value: Any) -> object:
    """Return the Python form of a scalar or an array of numbers or text, and any other value as it is. Times of numpy
    become plain numbers in their Python form, which says nothing about their unit."""
    if type(value).__module__ != "numpy" or getattr(getattr(value, "dtype", None), "kind", "") not in _NUMPY_KINDS:
        return value
    plain: object = value.tolist()
    return value if type(plain).__module__ == "numpy" else plain  # a longdouble has no Python form


def _text(value: str, place: _Place) -> str:
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise _refusal(place, value, "half of a surrogate pair is not text") from error
    return str(value)


def _object(items: Iterable[tuple[object, object]], place: _Place) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, item in items:
        name: object = key.value if isinstance(key, Enum) else key
        if not isinstance(name, str):
            raise _refusal(place, key, f"a key of an object is text, got {type(key).__qualname__} {key!r:.40}")
        found[_text(name, place)] = plain_json(item, (*place, name))
    return found


def _of_model(value: BaseModel, place: _Place) -> Any:
    """Return the JSON that a model defines for itself. If it cannot, its fields say why."""
    try:
        plain: object = value.model_dump(mode="json", by_alias=True)
    except (PydanticSerializationError, ValueError):
        plain = {name: getattr(value, name) for name in type(value).model_fields}
    return plain_json(plain, place)


def _refusal(place: _Place, value: object, problem: str) -> ValidationError:
    error = PydanticCustomError("not_json", "{problem}", {"problem": problem})
    return ValidationError.from_exception_data("JSON", [{"type": error, "loc": place, "input": value}])
