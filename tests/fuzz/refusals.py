"""A reader of foreign bytes returns a value, or raises an error that names a field and can be sent."""

from collections.abc import Callable
from typing import ParamSpec

import orjson

from hivemem_contracts.errors import HiveError, InvalidRequest, TooLarge
from hivemem_runtime.bus.requests.replies import ERROR_BYTES, error_body, error_headers

P = ParamSpec("P")


def refused(read: Callable[P, object], *args: P.args, **fields: P.kwargs) -> HiveError | None:
    """Return the reader's refusal, or None. Any other error is a fault of the reader."""
    try:
        read(*args, **fields)
    except (InvalidRequest, TooLarge) as refusal:
        error = refusal
    else:
        return None
    assert isinstance(error.context["field"], str), f"no field is named: {error}"
    body = error_body(error)
    assert len(body) <= ERROR_BYTES
    assert orjson.loads(body)["error"]["code"] == error.code
    assert all(value.isprintable() and value.encode() for value in error_headers(error).values())
    return error
