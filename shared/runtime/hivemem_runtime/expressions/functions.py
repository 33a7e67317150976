"""The operators and functions of CEL's standard library over values, each with what it costs."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from hivemem_runtime.expressions.budget import EvaluationFailed, Meter
from hivemem_runtime.expressions.conversions import CONVERSION_STEPS, converted
from hivemem_runtime.expressions.patterns import InvalidPattern, compiled_pattern, instructions
from hivemem_runtime.expressions.syntax import TypeName
from hivemem_runtime.expressions.times import (
    checked_timestamp,
    duration_part,
    saturated,
    timestamp_part,
)
from hivemem_runtime.expressions.tokens import INTEGER_MAXIMUM, INTEGER_MINIMUM, UNSIGNED_MAXIMUM
from hivemem_runtime.expressions.values import (
    Duration,
    Timestamp,
    Unsigned,
    equal,
    is_absent,
    key_of,
    less,
    lookup,
    type_of,
)

_ITEM_BYTES: Final = 8
_WORK_PER_STEP: Final = 64
"""Instructions of a pattern times characters of a text that one step pays for."""

Function = Callable[..., Any]


def _no_overload(name: str, *values: Any) -> EvaluationFailed:
    return EvaluationFailed(f"{name} takes no {' and '.join(map(type_of, values))}")


def _within(value: int) -> int:
    if INTEGER_MINIMUM <= value <= INTEGER_MAXIMUM:
        return value
    raise EvaluationFailed("integer overflow")


def _within_unsigned(value: int) -> Unsigned:
    if 0 <= value <= UNSIGNED_MAXIMUM:
        return Unsigned(value)
    raise EvaluationFailed("integer overflow")


def text_bytes(text: str) -> int:
    """At most what a text takes in memory."""
    return len(text) if text.isascii() else 4 * len(text)


def _add(meter: Meter, left: Any, right: Any) -> Any:
    kind = left.__class__
    if kind is right.__class__:
        if kind is int:
            return _within(left + right)
        if kind is float:
            return left + right
        if kind in _BUILT:
            meter.allocate(_BUILT[kind](left) + _BUILT[kind](right))
            return left + right
        if kind is Unsigned:
            return _within_unsigned(left.number + right.number)
        if kind is Duration:
            return Duration(_within(saturated(left.nanoseconds) + saturated(right.nanoseconds)))
    if (kind, right.__class__) in _TIME_AND_DURATION:
        return Timestamp(checked_timestamp(left.nanoseconds + right.nanoseconds))
    raise _no_overload("+", left, right)


_BUILT: Final[dict[type, Callable[[Any], int]]] = {
    str: text_bytes,
    bytes: len,
    list: lambda items: len(items) * _ITEM_BYTES,
}
"""What a value that a sum builds takes in memory."""

_TIME_AND_DURATION: Final = ((Timestamp, Duration), (Duration, Timestamp))


def _subtract(meter: Meter, left: Any, right: Any) -> Any:
    kind = left.__class__
    if kind is right.__class__:
        if kind is int:
            return _within(left - right)
        if kind is float:
            return left - right
        if kind is Unsigned:
            return _within_unsigned(left.number - right.number)
        if kind is Duration:
            return Duration(_within(saturated(left.nanoseconds) - saturated(right.nanoseconds)))
        if kind is Timestamp:
            return Duration(_within(left.nanoseconds - right.nanoseconds))
    if kind is Timestamp and right.__class__ is Duration:
        return Timestamp(checked_timestamp(left.nanoseconds - saturated(right.nanoseconds)))
    raise _no_overload("-", left, right)


def _multiply(meter: Meter, left: Any, right: Any) -> Any:
    kind = left.__class__
    if kind is right.__class__:
        if kind is int:
            return _within(left * right)
        if kind is float:
            return left * right
        if kind is Unsigned:
            return _within_unsigned(left.number * right.number)
    raise _no_overload("*", left, right)


def _divide(meter: Meter, left: Any, right: Any) -> Any:
    kind = left.__class__
    if kind is right.__class__:
        if kind is int:
            if right == 0:
                raise EvaluationFailed("divide by zero")
            quotient = abs(left) // abs(right)
            return _within(quotient if (left < 0) == (right < 0) else -quotient)
        if kind is float:
            return left / right if right else _divided_by_zero(left, right)
        if kind is Unsigned:
            if right.number == 0:
                raise EvaluationFailed("divide by zero")
            return Unsigned(left.number // right.number)
    raise _no_overload("/", left, right)


def _divided_by_zero(left: float, right: float) -> float:
    if left == 0 or math.isnan(left):
        return math.nan
    return math.copysign(math.inf, left) * math.copysign(1.0, right)


def _remainder(meter: Meter, left: Any, right: Any) -> Any:
    if left.__class__ is int and right.__class__ is int:
        if right == 0:
            raise EvaluationFailed("modulus by zero")
        if left == INTEGER_MINIMUM and right == -1:
            raise EvaluationFailed("integer overflow")
        return abs(left) % abs(right) * (1 if left >= 0 else -1)
    if left.__class__ is Unsigned and right.__class__ is Unsigned:
        if right.number == 0:
            raise EvaluationFailed("modulus by zero")
        return Unsigned(left.number % right.number)
    raise _no_overload("%", left, right)


def _negate(meter: Meter, value: Any) -> Any:
    if value.__class__ is int:
        return _within(-value)
    if value.__class__ is float:
        return -value
    raise _no_overload("-", value)


def _not(meter: Meter, value: Any) -> bool:
    if value.__class__ is bool:
        return not value
    raise _no_overload("!", value)


def _equal(meter: Meter, left: Any, right: Any) -> bool:
    return equal(left, right, meter)


def _unequal(meter: Meter, left: Any, right: Any) -> bool:
    return not equal(left, right, meter)


def _compare(operator: str, meter: Meter, left: Any, right: Any) -> bool:
    return less(operator, left, right, meter)


def _in(meter: Meter, value: Any, container: Any) -> bool:
    if container.__class__ is list:
        for item in container:
            meter.spend(1)
            if equal(value, item, meter):
                return True
        return False
    if container.__class__ is dict:
        return not is_absent(lookup(container, value))
    raise _no_overload("in", value, container)


def _index(meter: Meter, container: Any, at: Any) -> Any:
    if container.__class__ is dict:
        found = lookup(container, at)
        if is_absent(found):
            raise EvaluationFailed("no such key")
        return found
    if container.__class__ is not list:
        raise _no_overload("[]", container, at)
    if at.__class__ is float and at.is_integer():
        at = int(at)
    elif at.__class__ is Unsigned:
        at = at.number
    if at.__class__ is not int:
        raise _no_overload("[]", container, at)
    if 0 <= at < len(container):
        return container[at]
    raise EvaluationFailed(f"index {at} is outside a list of {len(container)}")


def _size(meter: Meter, value: Any) -> int:
    if value.__class__ in (str, bytes, list, dict):
        return len(value)
    raise _no_overload("size", value)


def _text_test(name: str, test: Callable[[str, str], bool], meter: Meter, text: Any, part: Any) -> bool:
    if text.__class__ is not str or part.__class__ is not str:
        raise _no_overload(name, text, part)
    meter.scan(len(part) + (len(text) if name == "contains" else 0))
    return test(text, part)


def _contains(text: str, part: str) -> bool:
    return part in text


def _matches(meter: Meter, text: Any, expression: Any) -> bool:
    if text.__class__ is not str or expression.__class__ is not str:
        raise _no_overload("matches", text, expression)
    meter.spend(len(expression))
    size = instructions(expression)
    meter.spend(CONVERSION_STEPS + size + size * text_bytes(text) // _WORK_PER_STEP)
    try:
        return compiled_pattern(expression).search(text) is not None
    except InvalidPattern as error:
        raise EvaluationFailed(f"an invalid regular expression: {error}") from error


def _dyn(meter: Meter, value: Any) -> Any:
    return value


def _type(meter: Meter, value: Any) -> TypeName:
    return TypeName(type_of(value))


def _time_part(name: str, meter: Meter, time: Any, zone: Any = "") -> int:
    meter.spend(CONVERSION_STEPS)
    if time.__class__ is Timestamp and zone.__class__ is str:
        return timestamp_part(name, time.nanoseconds, zone)
    if time.__class__ is Duration and zone == "":
        return duration_part(name, time.nanoseconds)
    raise _no_overload(name, time)


_CONVERSIONS: Final = ("bool", "bytes", "double", "duration", "int", "string", "timestamp", "uint")
_PARTS_OF_TIME: Final = (
    *("getDate", "getDayOfMonth", "getDayOfWeek", "getDayOfYear", "getFullYear", "getMonth"),
    *("getHours", "getMilliseconds", "getMinutes", "getSeconds"),
)
_FUNCTIONS: Final[dict[str, Function]] = {
    "_+_": _add,
    "_-_": _subtract,
    "_*_": _multiply,
    "_/_": _divide,
    "_%_": _remainder,
    "-_": _negate,
    "!_": _not,
    "_==_": _equal,
    "_!=_": _unequal,
    "_<_": partial(_compare, "<"),
    "_<=_": partial(_compare, "<="),
    "_>_": partial(_compare, ">"),
    "_>=_": partial(_compare, ">="),
    "@in": _in,
    "_[_]": _index,
    "size": _size,
    "contains": partial(_text_test, "contains", _contains),
    "startsWith": partial(_text_test, "startsWith", str.startswith),
    "endsWith": partial(_text_test, "endsWith", str.endswith),
    "matches": _matches,
    "dyn": _dyn,
    "type": _type,
    **{name: partial(converted, name) for name in _CONVERSIONS},
    **{name: partial(_time_part, name) for name in _PARTS_OF_TIME},
}


def function(name: str) -> Function:
    """Return what a function of a syntax tree does."""
    return _FUNCTIONS[name]


def map_of(entries: list[tuple[Any, Any]]) -> dict[Any, Any]:
    """Return the value of a map literal. A repeated key is an error."""
    found: dict[Any, Any] = {}
    for name, value in entries:
        key = key_of(name)
        if key in found:
            raise EvaluationFailed("duplicate key in map")
        found[key] = value
    return found
