"""The values of an expression: equality, order and keys.

JSON and bytes are Python's own. Unsigned numbers, times, durations and types have classes.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from operator import ge, gt, le, lt
from typing import Any, Final, Literal

from hivemem_runtime.expressions.budget import EvaluationFailed, Meter
from hivemem_runtime.expressions.syntax import TypeName

_ORDERED: Final[dict[str, Callable[[Any, Any], Any]]] = {"<": lt, "<=": le, ">": gt, ">=": ge}
_ALIKE: Final = (str, bytes, bool)


@dataclass(frozen=True, slots=True)
class Unsigned:
    number: int


@dataclass(frozen=True, slots=True)
class Timestamp:
    """A time, in nanoseconds since 1970."""

    nanoseconds: int


@dataclass(frozen=True, slots=True)
class Duration:
    nanoseconds: int


_NAMES: Final[dict[type, str]] = {
    type(None): "null_type", bool: "bool", int: "int", Unsigned: "uint", float: "double", str: "string",
    bytes: "bytes", list: "list", dict: "map", TypeName: "type",
    Timestamp: "google.protobuf.Timestamp", Duration: "google.protobuf.Duration",
}  # fmt: skip


def type_of(value: Any) -> str:
    """Return the name of a value's type."""
    return _NAMES[value.__class__]


@dataclass(frozen=True, slots=True)
class Key:
    """A map's key that would equal another one in Python: `true` differs from 1, and 1u from 1."""

    kind: Literal["bool", "uint"]
    number: int


def equal(left: Any, right: Any, meter: Meter) -> bool:
    """Values of different types are unequal, but numbers are compared as such."""
    kind = left.__class__
    if kind is right.__class__:
        if kind is dict or kind is list:
            return _equal_items(left, right, meter)
        if kind is str or kind is bytes:
            if len(left) != len(right):
                return False
            meter.scan(len(left))
        return bool(left == right)
    if kind is Unsigned or right.__class__ is Unsigned:
        return _equal_unsigned(left, right)
    if kind is int and right.__class__ is float:
        return bool(float(left) == right)
    return kind is float and right.__class__ is int and bool(left == float(right))


def _equal_items(left: Any, right: Any, meter: Meter) -> bool:
    meter.spend(1)
    if len(left) != len(right):
        return False
    if left.__class__ is list:
        for mine, other in zip(left, right, strict=True):
            meter.spend(1)
            if not equal(mine, other, meter):
                return False
        return True
    for key, mine in left.items():
        meter.spend(1)
        found = lookup(right, _plain_key(key))
        if found is _ABSENT or not equal(mine, found, meter):
            return False
    return True


def _equal_unsigned(left: Any, right: Any) -> bool:
    unsigned, other = (left, right) if left.__class__ is Unsigned else (right, left)
    number = unsigned.number
    return bool(number == other) if other.__class__ is int else other.__class__ is float and float(number) == other


def less(operator: str, left: Any, right: Any, meter: Meter) -> bool:
    kind, other = left.__class__, right.__class__
    if kind is other and kind in _ALIKE:
        if kind is not bool:
            meter.scan(min(len(left), len(right)))
        return bool(_ORDERED[operator](left, right))
    if kind in (int, float) and other in (int, float):
        if kind is not other:
            left, right = float(left), float(right)
        return bool(_ORDERED[operator](left, right))
    if kind is other and kind in (Timestamp, Duration):
        return bool(_ORDERED[operator](left.nanoseconds, right.nanoseconds))
    if Unsigned in (kind, other) and kind in _NUMBERS and other in _NUMBERS:
        first, second = (each.number if each.__class__ is Unsigned else each for each in (left, right))
        if float in (kind, other):
            first, second = float(first), float(second)
        return bool(_ORDERED[operator](first, second))
    raise EvaluationFailed(f"{operator} takes no {type_of(left)} and {type_of(right)}")


_NUMBERS: Final = (int, float, Unsigned)


_ABSENT: Final = object()


def key_of(value: Any) -> Any:
    """Return the key of a map for a value. Only texts, integers and booleans are keys."""
    kind = value.__class__
    if kind is str or kind is int:
        return value
    if kind is bool:
        return Key("bool", int(value))
    if kind is Unsigned:
        return Key("uint", value.number)
    raise EvaluationFailed(f"{type_of(value)} is no key of a map")


def _plain_key(key: Any) -> Any:
    """Return the value of a map's key."""
    if key.__class__ is not Key:
        return key
    return bool(key.number) if key.kind == "bool" else Unsigned(key.number)


def keys_of(entries: dict[Any, Any]) -> Iterator[Any]:
    return map(_plain_key, entries)


def lookup(entries: dict[Any, Any], value: Any) -> Any:
    """What a map has under a key, numbers compared as such; `is_absent` tells whether it has nothing."""
    if value.__class__ is str:
        return entries.get(value, _ABSENT)
    if value.__class__ is float:
        if not value.is_integer():
            return _ABSENT
        value = int(value)
        key = value
    else:
        key = key_of(value)
    found = entries.get(key, _ABSENT)
    if found is not _ABSENT or (key.__class__ is Key and key.kind == "bool"):
        return found
    return entries.get(key.number if key.__class__ is Key else Key("uint", key), _ABSENT)


def is_absent(found: Any) -> bool:
    return found is _ABSENT
