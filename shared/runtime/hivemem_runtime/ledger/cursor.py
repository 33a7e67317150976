"""Opaque cursors: where a page ended, in a form that callers hand back and do not read."""

import base64
import binascii
from typing import Any

import orjson

from hivemem_contracts.errors import InvalidRequest


def encode_cursor(*parts: Any) -> str:
    return base64.urlsafe_b64encode(orjson.dumps(parts)).rstrip(b"=").decode()


def _storable(value: Any) -> bool:
    """Return whether a store can hold a value: JSON has larger integers than a store."""
    return not isinstance(value, int) or -(2**63) <= value < 2**63


def decode_cursor(cursor: str, kinds: tuple[type | tuple[type, ...], ...]) -> list[Any]:
    """The parts of a cursor; `InvalidRequest` if it was not made by `encode_cursor` with parts of these kinds."""
    try:
        parts: Any = orjson.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
    except (binascii.Error, orjson.JSONDecodeError, ValueError) as error:
        raise InvalidRequest(f"cursor: {cursor[:40]!r} is not one of ours", field="cursor") from error
    if not isinstance(parts, list):
        raise InvalidRequest(f"cursor: {cursor[:40]!r} is not one of ours", field="cursor")
    values: list[Any] = parts  # pyright: ignore[reportUnknownVariableType]  # whatever JSON holds
    if len(values) != len(kinds) or not all(map(isinstance, values, kinds)) or not all(map(_storable, values)):
        raise InvalidRequest(f"cursor: {cursor[:40]!r} belongs to another list", field="cursor")
    return values
