"""Calls of the JetStream API."""

from collections.abc import Mapping
from typing import Any, cast

import orjson

from hivemem.connection import Connection


class JetStreamError(Exception):
    """An error of the JetStream API."""

    def __init__(self, code: int, err_code: int, description: str) -> None:
        super().__init__(f"{description} ({err_code})")
        self.code = code
        self.err_code = err_code
        self.description = description


def jetstream_result(data: bytes) -> dict[str, Any]:
    """Return the JSON object of an answer, or raise the `JetStreamError` in it."""
    answer: Any = orjson.loads(data)
    if not isinstance(answer, dict):
        raise JetStreamError(500, 0, "the answer is no JSON object")
    fields = cast("dict[str, Any]", answer)
    error: dict[str, Any] | None = fields.get("error")
    if error:
        raise JetStreamError(
            int(error.get("code", 500)), int(error.get("err_code", 0)), str(error.get("description", "no description"))
        )
    return fields


async def jetstream(
    connection: Connection, call: str, body: Mapping[str, Any] | None, timeout_seconds: float
) -> dict[str, Any]:
    """Call the JetStream API once. Raises `NoAnswer` or `JetStreamError`."""
    payload = orjson.dumps(body) if body is not None else b""
    message = await connection.request(f"$JS.API.{call}", payload, None, timeout_seconds)
    return jetstream_result(message.data)
