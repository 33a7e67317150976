"""Suggests what a misspelt name was meant to be."""

from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from typing import Any, Final, get_args

from pydantic import BaseModel

_LONGEST_CHARACTERS: Final = 64
"""Comparing longer names takes time, and they are rarely misspelt field names."""


def nearest(name: str, known: Iterable[str]) -> str:
    """Return a suggestion for the end of a sentence, or nothing if no known name is near."""
    if len(name) > _LONGEST_CHARACTERS:
        return ""
    found = get_close_matches(name, list(known), n=1)
    return f" (did you mean {found[0]!r}?)" if found else ""


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
