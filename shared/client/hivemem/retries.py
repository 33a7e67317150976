"""One call: the same request until it is answered, refused or out of time."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, cast

import orjson
from nats.aio.msg import Msg

from hivemem.connection import Connection, NoAnswer
from hivemem.options import CallOptions
from hivemem_contracts.errors import CODE_HEADER, TEXT_HEADER, HiveError, Unavailable, error_from_body

FIRST_WAIT_SECONDS: Final = 0.05
LONGEST_WAIT_SECONDS: Final = 2.0
LONGEST_HEEDED_SECONDS: Final = 10.0
_HINTS: Final = {
    "no_responders": "no worker serves it",
    "timeout": "no answer came",
    "disconnected": "there was no connection to the NATS server",
}

Judge = Callable[[Msg], HiveError | None]
"""Reads an answer: returns its error, or None for a result."""


def error_in(message: Msg) -> HiveError | None:
    """Return the error of an answer, or None."""
    headers = message.headers
    if headers is None or CODE_HEADER not in headers:
        return None
    try:
        body: Any = orjson.loads(message.data)
    except orjson.JSONDecodeError:
        body = None
    if isinstance(body, dict) and "error" in body:
        return error_from_body(cast("dict[str, Any]", body))
    return error_from_headers(headers)


def error_from_headers(headers: Mapping[str, str]) -> HiveError:
    """Return the error in the two headers of the services protocol, if the body has none."""
    code = headers.get(CODE_HEADER, "")
    number = int(code) if code.isascii() and code.isdigit() else 0
    return error_from_body({"error": {"code": number, "detail": headers.get(TEXT_HEADER, "no detail")}})


async def ask(
    connection: Connection,
    subject: str,
    payload: bytes,
    headers: dict[str, str] | None,
    options: CallOptions,
    what: str,
    judge: Judge = error_in,
) -> Msg:
    """Return the answer to a request. `what` names it in errors.

    Retryable errors, missing answers, missing workers and lost connections are retried with the same bytes and headers,
    so with the same idempotency key, until the deadline. Then raises the last error, or `Unavailable`.
    """

    async def attempt(seconds: float) -> Msg:
        return await connection.request(subject, payload, headers, seconds)

    return await persist(connection, attempt, options, what, judge)


async def persist(
    connection: Connection,
    attempt: Callable[[float], Awaitable[Msg]],
    options: CallOptions,
    what: str,
    judge: Judge = error_in,
) -> Msg:
    """Return an answer like `ask`, for a request that each `attempt` sends anew, with its own time limit in seconds."""
    loop = asyncio.get_running_loop()
    started = loop.time()
    deadline = started + options.timeout_seconds
    tries = 0
    reason = ""
    cause: Exception | None = None
    while True:
        tries += 1
        seconds = min(options.attempt_seconds, deadline - loop.time())
        try:
            message = await attempt(seconds)
        except NoAnswer as failure:
            # An attempt that the deadline cut short says less than the previous one.
            if failure.reason != "timeout" or not reason or seconds == options.attempt_seconds:
                reason, cause = failure.reason, failure
        else:
            error = judge(message)
            if error is None:
                return message
            if not error.retryable:
                raise error
            reason, cause = "refused", error
        remaining = deadline - loop.time()
        wait = _wait_seconds(tries, reason, cause)
        if tries > options.retries or wait >= remaining or not await _ready(connection, reason, wait, remaining):
            if isinstance(cause, HiveError):
                raise cause
            raise _gave_up(what, reason, tries, loop.time() - started) from cause


async def _ready(connection: Connection, reason: str, wait_seconds: float, remaining_seconds: float) -> bool:
    """Wait for the time of the next attempt; return False if the deadline comes first."""
    if reason == "disconnected" and not connection.connected:
        return await connection.wait_connected(remaining_seconds)
    await asyncio.sleep(wait_seconds)
    return True


def _wait_seconds(tries: int, reason: str, cause: Exception | None) -> float:
    if reason == "timeout":
        return 0.0
    told = cause.context.get("retry_after_ms") if isinstance(cause, HiveError) else None
    if isinstance(told, int | float) and told > 0:
        # A random delay after the requested time, never before it, so that callers do not return together.
        seconds = min(float(told) / 1000, LONGEST_HEEDED_SECONDS)
        return seconds * random.uniform(1.0, 1.25)  # noqa: S311 - no secret
    longest = min(LONGEST_WAIT_SECONDS, FIRST_WAIT_SECONDS * 2.0 ** min(tries - 1, 10))
    return longest * random.uniform(0.5, 1.0)  # noqa: S311 - no secret


def _gave_up(what: str, reason: str, tries: int, seconds: float) -> Unavailable:
    times = "1 try" if tries == 1 else f"{tries} tries"
    return Unavailable(
        f"{what}: {_HINTS[reason]}, {times} in {seconds:.1f} s; `hivemem doctor` says what is missing",
        reason=reason,
        tries=tries,
        retry_after_ms=1000,
    )
