"""The JSON that the fleet accepts: finite numbers, integers of 64 bits, nesting of a stated depth.

JSON itself sets no such limits, but stores and languages do, and a value that one of them cannot hold must be refused
before it is kept. A few searches over its bytes accept nearly every body; only a suspicious one is parsed a second time
and walked.
"""

from collections.abc import Iterable
from math import isfinite
from typing import Final, cast

from pydantic_core import from_json

from hivemem_contracts.error_values import field_path, shown
from hivemem_contracts.errors import InvalidRequest
from hivemem_contracts.limits import JSON_DEPTH

INTEGER_MINIMUM: Final = -(2**63)
INTEGER_MAXIMUM: Final = 2**63 - 1

_PLAIN_DIGITS: Final = bytes.maketrans(b"123456789E", b"000000000e")
_AS_BRACKETS: Final = bytes.maketrans(b"{}", b"[]")
_NO_BRACKETS: Final = bytes(set(range(256)) - set(b"{}[]"))
_NINETEEN_DIGITS: Final = b"0" * 19
"""No integer past 64 bits is shorter, and no number past a float's range that has an exponent under three digits."""


def refuse_unportable(data: bytes) -> None:
    """Raise `InvalidRequest` for a body that is valid JSON but holds a number or a nesting past the limits."""
    if _is_suspicious(data):
        found = _unportable(from_json(data), 1)
        if found is not None:
            path, problem, text = found
            field = field_path(reversed(path))
            raise InvalidRequest(f"{field}: {text}", field=field, problem=problem)


def _is_suspicious(data: bytes) -> bool:
    """Return False only if no number can be wrong. Digits count everywhere, also within text."""
    plain = data.translate(_PLAIN_DIGITS)
    return (
        _NINETEEN_DIGITS in plain
        or b"0e000" in plain
        or b"0e+000" in plain
        or b"NaN" in plain
        or b"Infinity" in plain
        or (plain.count(b"{") + plain.count(b"[") > JSON_DEPTH and _is_deep(data))
    )


def _is_deep(data: bytes) -> bool:
    """Return whether valid JSON is nested deeper than the limit. A batch has many brackets without deep nesting, so the
    innermost pairs outside of text are removed, one level at a time, until nothing is left."""
    outside = b"".join(data.replace(b"\\\\", b"").replace(b'\\"', b"").split(b'"')[::2])
    brackets = outside.translate(_AS_BRACKETS, _NO_BRACKETS)
    for _ in range(JSON_DEPTH):
        if not brackets:
            return False
        brackets = brackets.replace(b"[]", b"")
    return bool(brackets)


_Found = tuple[list[str | int], str, str]


def _unportable(value: object, depth: int) -> _Found | None:
    """Return the first bad place below a value, its path from the inside out. The parser has bounded the recursion."""
    items: Iterable[tuple[str | int, object]] = ()
    if isinstance(value, dict):
        items = cast("dict[str, object]", value).items()
    elif isinstance(value, list):
        items = enumerate(cast("list[object]", value))
    for key, item in items:
        found: _Found | None = None
        if isinstance(item, (dict, list)):
            if depth == JSON_DEPTH:
                found = [], "nesting", f"is nested deeper than {JSON_DEPTH} levels"
            else:
                found = _unportable(cast("object", item), depth + 1)
        elif isinstance(item, int):
            if not INTEGER_MINIMUM <= item <= INTEGER_MAXIMUM:
                found = [], "integer_range", f"an integer has 64 bits, got {shown(item)}"
        elif isinstance(item, float) and not isfinite(item):
            found = [], "finite_number", f"a number is finite, got {shown(item)}"
        if found is not None:
            found[0].append(key)
            return found
    return None
