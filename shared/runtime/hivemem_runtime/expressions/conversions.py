"""The conversions of CEL: `int`, `uint`, `double`, `string`, `bytes`, `bool`, `timestamp` and `duration`."""

import math
import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final

from hivemem_runtime.expressions.budget import EvaluationFailed, Meter
from hivemem_runtime.expressions.times import (
    SECOND,
    checked_timestamp,
    duration_of,
    duration_text,
    timestamp_of,
    timestamp_text,
)
from hivemem_runtime.expressions.tokens import INTEGER_MAXIMUM, INTEGER_MINIMUM, UNSIGNED_MAXIMUM
from hivemem_runtime.expressions.values import Duration, Timestamp, Unsigned, type_of

CONVERSION_STEPS: Final = 32
"""What a conversion costs, beside the length of its text."""

_TEXT_LENGTH: Final = 64
"""The most characters of a text that is a number."""

_SPACE: Final = " \t\n\v\f\r"
_INTEGER: Final = re.compile(r"[+-]?[0-9]+")
_DOUBLE: Final = re.compile(
    r"[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|inf(?:inity)?|nan(?:\([a-zA-Z0-9_]*\))?)", re.IGNORECASE
)
_HEX_DOUBLE: Final = re.compile(r"[+-]?0x(?:[0-9a-f]+\.?[0-9a-f]*|\.[0-9a-f]+)(?:p[+-]?[0-9]+)?", re.IGNORECASE)
_TRUE: Final = frozenset({"true", "t", "1", "TRUE", "True"})
_FALSE: Final = frozenset({"false", "f", "0", "FALSE", "False"})
_SMALLEST_PLAIN: Final = -4
_LARGEST_PLAIN: Final = 5
"""The powers of ten between which a number is shown without an exponent."""


def converted(to: str, meter: Meter, value: Any) -> Any:
    """Return a value as another type. Raises `EvaluationFailed` if it has no such value."""
    if to == "string" and value.__class__ is str:
        return value
    meter.spend(CONVERSION_STEPS)
    if value.__class__ in (str, bytes):
        meter.scan(len(value))
    found = _CONVERSIONS[to](value)
    if found.__class__ in (str, bytes):
        meter.allocate(len(found))
    return found


def _refused(to: str, value: Any) -> EvaluationFailed:
    return EvaluationFailed(f"no {to} can be made of this {type_of(value)}")


def _text(to: str, value: Any) -> str:
    if value.__class__ is not str:
        raise _refused(to, value)
    text: str = value
    return text


def _boolean(value: Any) -> bool:
    if value.__class__ is bool:
        return bool(value)
    text = _text("bool", value)
    if text in _TRUE or text in _FALSE:
        return text in _TRUE
    raise _refused("bool", value)


def _encoded(value: Any) -> bytes:
    return bytes(value) if value.__class__ is bytes else _text("bytes", value).encode()


def _double(value: Any) -> float:
    if value.__class__ in (float, int):
        return float(value)
    if value.__class__ is Unsigned:
        return float(value.number)
    text = _text("double", value).strip(_SPACE)
    if _DOUBLE.fullmatch(text) is not None:
        return math.nan if "nan" in text.lower() else float(text)
    if _HEX_DOUBLE.fullmatch(text) is not None:
        try:
            return float.fromhex(text)
        except OverflowError:
            return -math.inf if text[0] == "-" else math.inf
    raise _refused("double", value)


def _whole_number(to: str, value: Any) -> int | None:
    """Return the integer of a text or a finite number, or None for any other value."""
    if value.__class__ is int or (value.__class__ is bool and to == "int"):
        return int(value)
    if value.__class__ is Unsigned:
        return int(value.number)
    if value.__class__ is float:
        return int(value) if math.isfinite(value) else None
    if value.__class__ is str:
        text = value.strip(_SPACE)
        if _INTEGER.fullmatch(text) is not None and len(text.lstrip("+-").lstrip("0")) <= _TEXT_LENGTH:
            return int(text.lstrip("+-").lstrip("0") or "0") * (-1 if text[0] == "-" else 1)
    return None


def _integer(value: Any) -> int:
    number = value.nanoseconds // SECOND if value.__class__ is Timestamp else _whole_number("int", value)
    if number is None or not INTEGER_MINIMUM <= number <= INTEGER_MAXIMUM:
        raise _refused("int", value)
    if value.__class__ is float and number == INTEGER_MINIMUM:
        raise _refused("int", value)
    return int(number)


def _unsigned(value: Any) -> Unsigned:
    number = _whole_number("uint", value)
    if number is None or not 0 <= number <= UNSIGNED_MAXIMUM:
        raise _refused("uint", value)
    if (value.__class__ is float and value < 0) or (value.__class__ is str and "-" in value):
        raise _refused("uint", value)
    return Unsigned(number)


def _timestamp(value: Any) -> Timestamp:
    if value.__class__ is Timestamp:
        return Timestamp(value.nanoseconds)
    if value.__class__ is int:
        return Timestamp(checked_timestamp(value * SECOND))
    return Timestamp(timestamp_of(_text("timestamp", value)))


def _duration(value: Any) -> Duration:
    return Duration(value.nanoseconds if value.__class__ is Duration else duration_of(_text("duration", value)))


def _shown(value: Any) -> str:
    show = _SHOWN.get(value.__class__)
    if show is None:
        raise _refused("string", value)
    return show(value)


def _decoded(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        raise EvaluationFailed("bytes that are no UTF-8") from error


def _double_text(value: float) -> str:
    """Return the shortest text that is this number again, with an exponent outside 0.0001 to 999,999."""
    if not math.isfinite(value):
        return str(value)
    sign, digits, exponent = Decimal(repr(value)).as_tuple()
    assert isinstance(exponent, int), "a finite number has an exponent"
    shown = "".join(map(str, digits)).rstrip("0") or "0"
    first = len(digits) - 1 + exponent if value else 0
    if _SMALLEST_PLAIN <= first <= _LARGEST_PLAIN:
        padded = shown.ljust(first + 1, "0") if first >= 0 else "0" * -first + shown
        whole = max(first, 0) + 1
        text = f"{padded[:whole]}.{padded[whole:]}".rstrip(".")
    else:
        text = f"{shown[0]}.{shown[1:]}".rstrip(".") + f"e{first:+03}"
    return f"-{text}" if sign else text


_SHOWN: Final[dict[type, Callable[[Any], str]]] = {
    bool: lambda value: "true" if value else "false",
    bytes: _decoded,
    Duration: lambda value: duration_text(value.nanoseconds),
    float: _double_text,
    int: str,
    Timestamp: lambda value: timestamp_text(value.nanoseconds),
    Unsigned: lambda value: str(value.number),
}
_CONVERSIONS: Final[dict[str, Callable[[Any], Any]]] = {
    "bool": _boolean,
    "bytes": _encoded,
    "double": _double,
    "duration": _duration,
    "int": _integer,
    "string": _shown,
    "timestamp": _timestamp,
    "uint": _unsigned,
}
