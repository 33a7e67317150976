"""The values of an expression: equality, order and keys.

JSON and bytes are Python's own. What Python has no type for, as an unsigned number or a time to the nanosecond, is kept
as the text from which the library makes it again.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from operator import ge, gt, le, lt
from typing import Any, Final, Literal, cast

from cel_expr_python import cel

from hivemem_runtime.expressions.budget import EvaluationFailed, Meter

INTEGER_MINIMUM: Final = -(1 << 63)
INTEGER_MAXIMUM: Final = (1 << 63) - 1
_NATIVE_STEPS: Final = 32
"""What one call of the library costs beside its arguments, in steps of this evaluator."""

_ORDERED: Final[dict[str, Callable[[Any, Any], Any]]] = {"<": lt, "<=": le, ">": gt, ">=": ge}
_ALIKE: Final = (str, bytes, bool)
_EMPTY: Final[dict[type, Any]] = {str: "", bytes: b"", list: [], dict: {}}


@dataclass(frozen=True, slots=True)
class Foreign:
    """A value that Python has no type for, by the text from which its conversion makes it again."""

    kind: Literal["uint", "timestamp", "duration"]
    text: str


@dataclass(frozen=True, slots=True)
class TypeName:
    name: str


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
    if kind is Foreign or right.__class__ is Foreign:
        return _equal_foreign(left, right)
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


def _equal_foreign(left: Any, right: Any) -> bool:
    if left.__class__ is right.__class__:
        return bool(left == right)
    foreign, other = (left, right) if left.__class__ is Foreign else (right, left)
    if foreign.kind != "uint":
        return False
    number = int(foreign.text)
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
    if kind is Foreign or other is Foreign:
        return bool(native("{0} " + operator + " {1}", (left, right), meter))
    raise EvaluationFailed(f"{operator} takes no {kind.__name__} and {other.__name__}")


_ABSENT: Final = object()


def key_of(value: Any) -> Any:
    """Return the key of a map for a value. Only texts, integers and booleans are keys."""
    kind = value.__class__
    if kind is str or kind is int:
        return value
    if kind is bool:
        return Key("bool", int(value))
    if kind is Foreign and value.kind == "uint":
        return Key("uint", int(value.text))
    raise EvaluationFailed(f"{kind.__name__} is no key of a map")


def _plain_key(key: Any) -> Any:
    """Return the value of a map's key."""
    if key.__class__ is not Key:
        return key
    return bool(key.number) if key.kind == "bool" else Foreign("uint", str(key.number))


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


def native(template: str, arguments: tuple[Any, ...], meter: Meter) -> Any:
    """Let the library evaluate an expression over the arguments; the template names them `{0}`, `{1}`, …"""
    meter.spend(_NATIVE_STEPS)
    data = {f"a{place}": _handed(argument, meter) for place, argument in enumerate(arguments)}
    kinds = tuple(argument.kind if argument.__class__ is Foreign else "" for argument in arguments)
    try:
        result = _compiled(template, kinds).eval(data=data)
    except RuntimeError as error:
        raise EvaluationFailed(str(error)) from error
    kind: str = result.type().name()
    if kind in ("TIMESTAMP", "DURATION"):
        text = _compiled(f"string({template})", kinds).eval(data=data).value()
        return Foreign("timestamp" if kind == "TIMESTAMP" else "duration", text)
    if kind == "ERROR":
        raise EvaluationFailed(str(result.value()))
    if kind == "UINT":
        return Foreign("uint", str(result.value()))
    if kind == "TYPE":
        return TypeName(result.value().name())
    value = result.plain_value()
    if isinstance(value, (str, bytearray)):
        meter.allocate(len(value))
    return bytes(value) if isinstance(value, bytearray) else value


def _handed(value: Any, meter: Meter) -> Any:
    """A value as the library takes it, its size counted."""
    kind = value.__class__
    if kind is Foreign:
        return value.text
    if kind is str or kind is bytes:
        meter.scan(len(value))
    elif kind is list:
        meter.spend(len(value))
        return [_nested(each, meter) for each in value]
    elif kind is dict:
        meter.spend(len(value))
        return {key.number if key.__class__ is Key else key: _nested(each, meter) for key, each in value.items()}
    return value


def _nested(value: Any, meter: Meter) -> Any:
    if isinstance(value, (Foreign, TypeName)):
        raise EvaluationFailed("a list or a map of such values is no argument here")
    return _handed(value, meter)


@lru_cache(maxsize=1_024)
def _compiled(template: str, kinds: tuple[str, ...]) -> cel.Expression:
    names = [f"dyn({kind}(a{place}))" if kind else f"a{place}" for place, kind in enumerate(kinds)]
    environment = cel.NewEnv(variables={f"a{place}": cel.Type.DYN for place in range(len(kinds))})
    try:
        return environment.compile(template.format(*names))
    except RuntimeError as error:
        raise EvaluationFailed(str(error).splitlines()[0]) from error


def type_of(value: Any, meter: Meter) -> TypeName:
    """The type of a value; of a list or a map without a look at what is in it."""
    if isinstance(value, TypeName):
        return TypeName("TYPE")
    empty = _EMPTY.get(value.__class__)
    return cast("TypeName", native("type({0})", (value if empty is None else empty,), meter))
