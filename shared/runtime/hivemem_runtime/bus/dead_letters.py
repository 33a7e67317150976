"""What could never succeed goes to the stream DEAD, whole, with the reason: somebody can read it and send it again."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

import orjson
from nats.aio.client import Client

from hivemem_contracts.errors import CODE_HEADER, TEXT_HEADER, HiveError, Unavailable
from hivemem_contracts.identifiers import format_time
from hivemem_contracts.streams import (
    DEAD_AT,
    DEAD_BODY_OMITTED,
    DEAD_ERROR,
    DEAD_MESSAGE_ID,
    DEAD_SUBJECT,
    MESSAGE_ID,
)
from hivemem_runtime.bus.jetstream import publish

ATTEMPTS: Final = 3
TIMEOUT_SECONDS: Final = 2.0
AT_ONCE: Final = 64
TEXT_CHARACTERS: Final = 256
ERROR_BYTES: Final = 8_192
ID_CHARACTERS: Final = 1_024
"""A stream takes at most 64 KiB of headers, and an id alone may have had that much."""
HEADERS_SPARE_BYTES: Final = 128


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """`id` is the same whenever the same message is given up, so that the stream keeps one of them."""

    subject: str
    data: bytes
    error: HiveError
    original_subject: str
    original_id: str
    id: str
    traceparent: str | None = None


class DeadLetters:
    """The publishing side. Reading is done by whoever cleans up, with the headers named in the contract."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._slots = asyncio.Semaphore(AT_ONCE)
        self.published = 0

    async def publish(self, letter: DeadLetter) -> None:
        """Returns once it is stored. Raises `Unavailable`: the message must not be given up then."""
        async with self._slots:
            for attempt in range(1, ATTEMPTS + 1):
                try:
                    await self._send(letter)
                    break
                except Unavailable:
                    if attempt == ATTEMPTS:
                        raise
        self.published += 1

    async def _send(self, letter: DeadLetter) -> None:
        headers, data = _headers(letter), letter.data
        # The server closes the connection of whoever sends more than this, and counts the headers in.
        if len(data) + _size(headers) > self._client.max_payload:
            headers[DEAD_BODY_OMITTED] = str(len(data))
            data = b""
        await publish(self._client, letter.subject, data, headers, timeout_seconds=TIMEOUT_SECONDS)


def _size(headers: Mapping[str, str]) -> int:
    """Return an upper bound of the headers' size on the wire, with room for the header that names omitted ones."""
    return HEADERS_SPARE_BYTES + sum(len(name) + len(value.encode()) + 4 for name, value in headers.items())


def _headers(letter: DeadLetter) -> dict[str, str]:
    headers = {
        MESSAGE_ID: letter.id,
        CODE_HEADER: str(letter.error.code),
        TEXT_HEADER: _one_line(letter.error.detail),
        DEAD_ERROR: _error_json(letter.error),
        DEAD_SUBJECT: letter.original_subject,
        DEAD_MESSAGE_ID: letter.original_id[:ID_CHARACTERS],
        DEAD_AT: format_time(datetime.now(UTC)),
    }
    if letter.traceparent:
        headers["traceparent"] = letter.traceparent
    return headers


def _one_line(text: str) -> str:
    return " ".join(text.split())[:TEXT_CHARACTERS]


def _error_json(error: HiveError) -> str:
    """The error body on one line; without its context where that would make a header too long."""
    body: Mapping[str, object] = error.body()
    whole = orjson.dumps(body, default=str)
    if len(whole) > ERROR_BYTES:
        whole = orjson.dumps(type(error)(_one_line(error.detail)).body())
    return whole.decode()
