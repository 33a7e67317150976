"""Conditions on fields of a memory's value, as `list` filters by them."""

from collections.abc import Mapping
from typing import Any, Final, cast

_ABSENT: Final = object()

FieldValue = str | int | float | bool | None


def meets(value: object, where: Mapping[str, FieldValue]) -> bool:
    """Return whether each field of the value exists and equals the wanted value. A null equals a null only, and no
    boolean equals a number."""
    return all(_equal(_field(value, name), wanted) for name, wanted in where.items())


def _field(value: object, name: str) -> object:
    """Return a field of that name or else at that path."""
    if isinstance(value, Mapping) and name in value:
        return cast("Mapping[str, Any]", value)[name]
    for part in name.split("."):
        if not isinstance(value, Mapping):
            return _ABSENT
        value = cast("Mapping[str, object]", value).get(part, _ABSENT)
    return value


def _equal(found: object, wanted: FieldValue) -> bool:
    return found == wanted and isinstance(found, bool) == isinstance(wanted, bool)
