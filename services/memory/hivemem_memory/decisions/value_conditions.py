"""Conditions on fields of a memory's value, as `list` filters by them."""

from collections.abc import Mapping
from typing import Final, cast

_ABSENT: Final = object()

FieldValue = str | int | float | bool | None


def meets(value: object, where: Mapping[str, FieldValue]) -> bool:
    """Return whether each field of the value exists and equals the wanted value. A null equals a null only, and no
    boolean equals a number."""
    return all(_equal(_field(value, name), wanted) for name, wanted in where.items())


def _field(value: object, name: str) -> object:
    """Return a field of that name or else at that path."""
    found = _named(value, name)
    if found is _ABSENT:
        found = value
        for part in name.split("."):
            found = _named(found, part)
    return found


def _named(value: object, name: str) -> object:
    return cast("Mapping[str, object]", value).get(name, _ABSENT) if isinstance(value, Mapping) else _ABSENT


def _equal(found: object, wanted: FieldValue) -> bool:
    return found == wanted and isinstance(found, bool) == isinstance(wanted, bool)
