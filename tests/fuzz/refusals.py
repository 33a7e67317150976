"""Readers of foreign bytes: each returns, or refuses with an error that names a field and can be sent."""

from collections.abc import Callable
from typing import ParamSpec

import orjson

from hivemem_contracts.errors import HiveError, InvalidRequest, TooLarge
from hivemem_runtime.bus.requests.replies import ERROR_BYTES, error_body, error_headers

P = ParamSpec("P")


def refused(read: Callable[P, object], *args: P.args, **fields: P.kwargs) -> HiveError | None:
    """The refusal that reading ends with, None without one. Any other error is the reader's fault."""
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
