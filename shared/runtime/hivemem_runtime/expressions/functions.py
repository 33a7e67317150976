"""The operators and functions of CEL's standard library over values, each with what it costs.

Frequent operators are implemented here. The library does the rest, one call at a time.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from hivemem_runtime.expressions.budget import EvaluationFailed, Meter
from hivemem_runtime.expressions.patterns import instructions
from hivemem_runtime.expressions.values import (
    INTEGER_MAXIMUM,
    INTEGER_MINIMUM,
    Foreign,
    equal,
    is_absent,
    key_of,
    less,
    lookup,
    native,
    type_of,
)

_ITEM_BYTES: Final = 8
_WORK_PER_STEP: Final = 64
"""Instructions of a pattern times characters of a text that one step pays for."""

Function = Callable[..., Any]


def _no_overload(name: str, *values: Any) -> EvaluationFailed:
    return EvaluationFailed(f"{name} takes no {' and '.join(value.__class__.__name__ for value in values)}")


def _within(value: int) -> int:
    if INTEGER_MINIMUM <= value <= INTEGER_MAXIMUM:
        return value
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
        if kind is str:
            meter.allocate(text_bytes(left) + text_bytes(right))
            return left + right
        if kind is bytes or kind is list:
            meter.allocate((len(left) + len(right)) * (1 if kind is bytes else _ITEM_BYTES))
            return left + right
    if kind is Foreign or right.__class__ is Foreign:
        return native("{0} + {1}", (left, right), meter)
    raise _no_overload("+", left, right)


def _subtract(meter: Meter, left: Any, right: Any) -> Any:
    kind = left.__class__
    if kind is right.__class__:
        if kind is int:
            return _within(left - right)
        if kind is float:
            return left - right
    return _foreign_only("-", left, right, meter)


def _multiply(meter: Meter, left: Any, right: Any) -> Any:
    kind = left.__class__
    if kind is right.__class__:
        if kind is int:
            return _within(left * right)
        if kind is float:
            return left * right
    return _foreign_only("*", left, right, meter)


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
    return _foreign_only("/", left, right, meter)


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
    return _foreign_only("%", left, right, meter)


def _foreign_only(operator: str, left: Any, right: Any, meter: Meter) -> Any:
    if left.__class__ is Foreign or right.__class__ is Foreign:
        return native("{0} " + operator + " {1}", (left, right), meter)
    raise _no_overload(operator, left, right)


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
    if left.__class__ is Foreign and right.__class__ is Foreign and left.kind != right.kind:
        raise _no_overload(operator, left, right)
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
    elif at.__class__ is Foreign and at.kind == "uint":
        at = int(at.text)
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


def _matches(meter: Meter, text: Any, pattern: Any) -> bool:
    if text.__class__ is not str or pattern.__class__ is not str:
        raise _no_overload("matches", text, pattern)
    meter.spend(len(pattern))
    size = instructions(pattern)
    meter.spend(size + size * text_bytes(text) // _WORK_PER_STEP)
    return bool(native("{0}.matches({1})", (text, pattern), meter))


def _string(meter: Meter, value: Any) -> Any:
    return value if value.__class__ is str else native("string({0})", (value,), meter)


def _dyn(meter: Meter, value: Any) -> Any:
    return value


def _type(meter: Meter, value: Any) -> Any:
    return type_of(value, meter)


def _called(name: str, count: int, *, method: bool) -> Function:
    """A function that the library runs, on the arguments alone."""
    places = [f"{{{place}}}" for place in range(count)]
    template = f"{places[0]}.{name}({', '.join(places[1:])})" if method else f"{name}({', '.join(places)})"

    def call(meter: Meter, *arguments: Any) -> Any:
        return native(template, arguments, meter)

    return call


_CONVERSIONS: Final = frozenset({"bool", "bytes", "double", "duration", "int", "timestamp", "uint"})
_DATES: Final = frozenset({"getDate", "getDayOfMonth", "getDayOfWeek", "getDayOfYear", "getFullYear", "getMonth"})
_TIMES: Final = frozenset({"getHours", "getMilliseconds", "getMinutes", "getSeconds"})
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
    "string": _string,
    "dyn": _dyn,
    "type": _type,
}


def function(name: str, count: int, *, method: bool) -> Function:
    """What a function of the checked syntax tree does; `ValueError` for one that this evaluator does not have."""
    known = _FUNCTIONS.get(name)
    if known is not None:
        return known
    if name in _CONVERSIONS | _DATES | _TIMES:
        return _called(name, count, method=method)
    raise ValueError(f"the function {name!r} is not available here")


def map_of(entries: list[tuple[Any, Any]]) -> dict[Any, Any]:
    """Return the value of a map literal. A repeated key is an error."""
    found: dict[Any, Any] = {}
    for name, value in entries:
        key = key_of(name)
        if key in found:
            raise EvaluationFailed("duplicate key in map")
        found[key] = value
    return found
