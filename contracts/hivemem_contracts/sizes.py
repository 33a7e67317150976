"""Size limits of single values of a body, declared with the value."""

import types
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Any, Final, Union, cast, get_args, get_origin

from pydantic import BaseModel, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, to_json

from hivemem_contracts.error_values import field_path
from hivemem_contracts.errors import TooLarge

MAX_BYTES: Final = "x-max-bytes"
"""The keyword that carries a limit to the generator of the documents, which says it in words."""

_Step = str | None
"""A step to a value: a field's name, or None for each item of a list or each value of an object."""


@dataclass(frozen=True, slots=True)
class MaxBytes:
    """Annotates a value with its largest size, encoded as compact JSON in UTF-8."""

    limit: int

    def __get_pydantic_json_schema__(self, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        schema = handler(core)
        schema[MAX_BYTES] = self.limit
        return schema


@dataclass(frozen=True, slots=True)
class _Limits:
    smallest: int
    paths: tuple[tuple[tuple[_Step, ...], int], ...]


def check_sizes(body: BaseModel, body_bytes: int) -> None:
    """Raise `TooLarge` for the first value over its limit. A body within a limit cannot hold a value past it."""
    limits = _limits(type(body))
    if body_bytes <= limits.smallest:
        return
    for path, limit in limits.paths:
        if body_bytes <= limit:
            continue
        for place, value in _values(body, path, ()):
            check_size(field_path(place), len(to_json(value)), limit)


def check_size(field: str, actual: int, limit: int) -> None:
    """Raise `TooLarge` if `actual` bytes are more than `limit`."""
    if actual > limit:
        raise TooLarge(f"{field}: {actual} bytes, {limit} at most", field=field, limit=limit, actual=actual)


@lru_cache(maxsize=1024)
def _limits(model: type[BaseModel]) -> _Limits:
    paths = tuple(dict.fromkeys(_declared(model, ())))
    return _Limits(min((limit for _, limit in paths), default=2**63), paths)


def _declared(annotation: Any, path: tuple[_Step, ...]) -> Iterator[tuple[tuple[_Step, ...], int]]:
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        yield from ((path, mark.limit) for mark in arguments[1:] if isinstance(mark, MaxBytes))
        yield from _declared(arguments[0], path)
    elif origin in (Union, types.UnionType):
        for argument in arguments:
            yield from _declared(argument, path)
    elif origin in (list, dict):
        yield from _declared(arguments[-1], (*path, None))
    elif isinstance(annotation, type) and issubclass(annotation, BaseModel):
        for name, field in annotation.model_fields.items():
            yield from (((*path, name), mark.limit) for mark in field.metadata if isinstance(mark, MaxBytes))
            yield from _declared(field.annotation, (*path, name))


def _values(
    value: object, path: tuple[_Step, ...], place: tuple[str | int, ...]
) -> Iterator[tuple[tuple[str | int, ...], object]]:
    if not path:
        yield place, value
    elif path[0] is not None:
        # Of a union, another of its models may be here.
        if isinstance(value, BaseModel) and path[0] in type(value).model_fields:
            yield from _values(getattr(value, path[0]), path[1:], (*place, path[0]))
    elif isinstance(value, dict):
        for key, item in cast("dict[str, object]", value).items():
            yield from _values(item, path[1:], (*place, key))
    elif isinstance(value, list):
        for index, item in enumerate(cast("list[object]", value)):
            yield from _values(item, path[1:], (*place, index))
