"""The names of fields at a place of a body, for suggestions."""

from collections.abc import Iterable, Iterator
from typing import Any, get_args

from pydantic import BaseModel


def names_at(model: type[BaseModel], place: Iterable[str | int]) -> set[str]:
    """Return the names that an object of a body can have on the wire, at a place such as `appends.3.event`."""
    models = {model}
    for part in place:
        # Numbers of items, keys of objects and pydantic's names for the branches of a union lead nowhere else.
        models = {inner for found in models for inner in _inner_models(found, part)} or models
    return {field.serialization_alias or name for found in models for name, field in found.model_fields.items()}


def _inner_models(model: type[BaseModel], part: str | int) -> Iterator[type[BaseModel]]:
    for name, field in model.model_fields.items():
        if part in (name, field.serialization_alias):
            yield from _models_in(field.annotation)


def _models_in(kind: Any) -> Iterator[type[BaseModel]]:
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        yield kind
    for part in get_args(kind):
        yield from _models_in(part)
