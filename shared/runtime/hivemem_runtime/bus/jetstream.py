"""JetStream's API in its own JSON, because the client library knows none of the newer fields."""

import base64
from collections.abc import Mapping
from typing import Any, Final, NamedTuple, cast

import nats.errors
import orjson
from nats.aio.client import Client

from hivemem_contracts.errors import Unavailable
from hivemem_contracts.frames import parse_headers

API: Final = "$JS.API"
NANOSECONDS: Final = 1_000_000_000
STREAM_NOT_FOUND: Final = 10059
CONSUMER_NOT_FOUND: Final = 10014
NO_MESSAGE: Final = 10037


class JetStreamRefused(Exception):
    """The server understood the request and said no; `code` is JetStream's own error number."""

    def __init__(self, subject: str, error: Mapping[str, Any]) -> None:
        self.code = int(error.get("err_code", 0))
        self.description = str(error.get("description", "no reason given"))
        super().__init__(f"{subject}: {self.description} ({self.code})")


class StoredMessage(NamedTuple):
    """A message as a stream keeps it."""

    sequence: int
    subject: str
    headers: Mapping[str, str]
    data: bytes


def message_of(answer: Mapping[str, Any]) -> StoredMessage:
    """Return the message in an answer to `STREAM.MSG.GET`, even with malformed headers."""
    message = answer["message"]
    headers = parse_headers(base64.b64decode(message.get("hdrs", "")))
    return StoredMessage(
        int(message["seq"]), str(message["subject"]), headers, base64.b64decode(message.get("data", ""))
    )


async def ask(
    client: Client, subject: str, body: Mapping[str, Any] | None = None, *, timeout_seconds: float = 5.0
) -> dict[str, Any]:
    """One request to the API. Raises `JetStreamRefused`, or `Unavailable` where nothing answers."""
    payload = b"" if body is None else orjson.dumps(body)
    try:
        reply = await client.request(f"{API}.{subject}", payload, timeout=timeout_seconds)
    except (TimeoutError, nats.errors.Error, OSError) as error:
        raise Unavailable(f"JetStream does not answer {subject}: {error!r}", retry_after_ms=1000) from error
    answer = cast("dict[str, Any]", orjson.loads(reply.data))
    refused = answer.get("error")
    if refused:
        raise JetStreamRefused(subject, refused)
    return answer


async def publish(
    client: Client, subject: str, data: bytes, headers: dict[str, str], *, timeout_seconds: float
) -> None:
    """Publish into a stream and wait until it is stored, or was there before by its id. Raises `Unavailable`."""
    try:
        reply = await client.request(subject, data, timeout=timeout_seconds, headers=headers)
    except (TimeoutError, nats.errors.Error, OSError) as error:
        raise Unavailable(f"no stream confirms {subject}: {error!r}", retry_after_ms=1000) from error
    refused = cast("dict[str, Any]", orjson.loads(reply.data)).get("error")
    if refused:
        raise Unavailable(f"the stream of {subject} refuses: {refused.get('description')}", retry_after_ms=1000)
