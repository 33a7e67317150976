"""Dead letters: commands that can never succeed, with their error, to read, replay or discard."""

from dataclasses import dataclass
from typing import Any, Final, cast

import orjson
from nats.aio.msg import Msg

from hivemem.connection import Connection
from hivemem.cursor import nanoseconds
from hivemem.jetstream import JetStreamError, jetstream_result
from hivemem.options import CallOptions
from hivemem.publishing import Prepared, Receipt, publish_prepared
from hivemem.retries import ask, error_from_headers
from hivemem_contracts.errors import (
    HiveError,
    Internal,
    InvalidRequest,
    NotFound,
    Unavailable,
    error_from_body,
)
from hivemem_contracts.identifiers import Time, time_from_microseconds
from hivemem_contracts.limits import LIST_DEFAULT, LIST_MAXIMUM
from hivemem_contracts.streams import COMMAND_ID, DEAD, DEAD_BODY_OMITTED, DEAD_ERROR, DEAD_MESSAGE_ID, DEAD_SUBJECT
from hivemem_contracts.subjects import decode_token, encode_token

PAGE_BYTES: Final = 16 * 1024 * 1024
_NO_SUCH_MESSAGE: Final = {10037, 10043, 10057}


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """One command that became a dead letter."""

    sequence: int
    """Its number among the dead letters."""
    subject: str
    """The subject that it was published to."""
    agent: str
    operation: str
    """The full name, such as `sessions.append`."""
    route: str | None
    message_id: str
    error: HiveError
    """The error that made it a dead letter."""
    data: bytes
    """The original body; empty if `omitted_bytes` says that it was too large to be kept."""
    omitted_bytes: int
    at: Time
    traceparent: str | None


@dataclass(frozen=True, slots=True)
class DeadPage:
    """A page of dead letters, oldest first; `cursor` leads to the next page, None on the last one."""

    items: list[DeadLetter]
    cursor: str | None


class DeadLetters:
    """The dead letters of one tenant. Reading them needs the right to use the JetStream API of the server."""

    def __init__(self, connection: Connection, tenant: str, options: CallOptions) -> None:
        self._connection = connection
        self._tenant = tenant
        self._options = options
        self._subjects = f"hive.dead.{encode_token(tenant)}."

    async def list(self, limit: int = LIST_DEFAULT, cursor: str | None = None) -> DeadPage:
        """Return a page, oldest first. Raises `InvalidRequest` and `Unavailable`."""
        if not 1 <= limit <= LIST_MAXIMUM:
            raise InvalidRequest(f"limit: from 1 to {LIST_MAXIMUM}, got {limit}", field="limit")
        if cursor is not None and not (cursor.isascii() and cursor.isdigit()):
            raise InvalidRequest(f"cursor: {cursor!r} is not the cursor of a page", field="cursor")
        following = int(cursor or "1")
        items: list[DeadLetter] = []
        size = 0
        while len(items) < limit and size < PAGE_BYTES:
            message = await self._fetch({"seq": following, "next_by_subj": f"{self._subjects}>"})
            if message is None:
                return DeadPage(items, None)
            letter = _letter(message)
            items.append(letter)
            size += len(letter.data)
            following = letter.sequence + 1
        return DeadPage(items, str(following))

    async def get(self, sequence: int) -> DeadLetter:
        """Return one dead letter. Raises `NotFound` and `Unavailable`."""
        message = await self._fetch({"seq": sequence}) if sequence > 0 else None
        if message is None or not _header(message, "Nats-Subject").startswith(self._subjects):
            raise NotFound(f"there is no dead letter {sequence}", sequence=sequence)
        return _letter(message)

    async def replay(self, sequence: int) -> Receipt:
        """Publish the original bytes to the original subject again, and discard the dead letter.

        It keeps its message id, so a command that had been carried out after all, or in part, is not carried out twice.
        If it fails again, it is a dead letter again. Raises `NotFound`, `InvalidRequest` if it is not a command or its
        body was not kept, `Overloaded` and `Unavailable`. It is safe to repeat.
        """
        letter = await self.get(sequence)
        if not letter.subject.startswith(f"hive.in.{encode_token(self._tenant)}.") or letter.route is None:
            raise InvalidRequest(
                f"dead letter {sequence} is not a command: it came from {letter.subject}", field="sequence"
            )
        if letter.omitted_bytes:
            raise InvalidRequest(
                f"dead letter {sequence}: its body of {letter.omitted_bytes} bytes was too large to be kept",
                field="sequence",
            )
        headers = {COMMAND_ID: letter.message_id}
        if letter.traceparent:
            headers["traceparent"] = letter.traceparent
        command = Prepared(f"dead letter {sequence}", letter.subject, letter.data, headers, letter.route)
        receipt = await publish_prepared(self._connection, command, self._options)
        await self._delete(sequence)
        return receipt

    async def discard(self, sequence: int) -> None:
        """Delete a dead letter for good. Raises `NotFound` and `Unavailable`."""
        await self.get(sequence)
        await self._delete(sequence)

    async def _fetch(self, query: dict[str, Any]) -> Msg | None:
        subject = f"$JS.API.DIRECT.GET.{DEAD}"
        message = await ask(
            self._connection, subject, orjson.dumps(query), None, self._options, "reading the dead letters", _unread
        )
        return None if _header(message, "Status") == "404" else message

    async def _delete(self, sequence: int) -> None:
        subject = f"$JS.API.STREAM.MSG.DELETE.{DEAD}"
        query = orjson.dumps({"seq": sequence})
        await ask(
            self._connection, subject, query, None, self._options, f"discarding dead letter {sequence}", _undeleted
        )


def _unread(message: Msg) -> HiveError | None:
    status = _header(message, "Status")
    if status in ("", "404"):
        return None
    return Internal(f"{DEAD}: {status} {_header(message, 'Description')}")


def _undeleted(message: Msg) -> HiveError | None:
    try:
        jetstream_result(message.data)
    except JetStreamError as error:
        # Another caller, or an earlier attempt of this call, has deleted it.
        if error.err_code in _NO_SUCH_MESSAGE:
            return None
        return Unavailable(f"{DEAD}: {error}") if error.code >= 500 else Internal(f"{DEAD}: {error}")
    return None


def _letter(message: Msg) -> DeadLetter:
    tokens = _header(message, "Nats-Subject").split(".")
    original = _header(message, DEAD_SUBJECT)
    parts = original.split(".")
    return DeadLetter(
        sequence=int(_header(message, "Nats-Sequence")),
        subject=original,
        agent=_text(tokens[3]) if len(tokens) > 3 else "",
        operation=".".join(tokens[4:6]),
        route=_text(parts[6]) if len(parts) == 7 and parts[1] == "in" else None,
        message_id=_header(message, DEAD_MESSAGE_ID),
        error=_error(message),
        data=message.data,
        omitted_bytes=int(_header(message, DEAD_BODY_OMITTED) or "0"),
        at=time_from_microseconds(nanoseconds(_header(message, "Nats-Time-Stamp")) // 1000),
        traceparent=_header(message, "traceparent") or None,
    )


def _text(token: str) -> str:
    """Decode a token, or return it unchanged: a malformed subject may be what made the letter dead."""
    try:
        return decode_token(token)
    except InvalidRequest:
        return token


def _error(message: Msg) -> HiveError:
    try:
        body: Any = orjson.loads(_header(message, DEAD_ERROR))
    except orjson.JSONDecodeError:
        return error_from_headers(message.headers or {})
    if isinstance(body, dict):
        return error_from_body(cast("dict[str, Any]", body))
    return error_from_headers(message.headers or {})


def _header(message: Msg, name: str) -> str:
    return (message.headers or {}).get(name, "")
