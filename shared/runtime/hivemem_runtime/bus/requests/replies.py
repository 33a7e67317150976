"""Reply subjects, and how an error travels in an answer."""

import re
import time
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

import orjson
import structlog

from hivemem_contracts.errors import CODE_HEADER, TEXT_HEADER, HiveError
from hivemem_contracts.subjects import Sender, inbox_prefix, sender_of

log = structlog.get_logger("hivemem.replies")

PLAIN_INBOX: Final = "_INBOX"
IMPORTED: Final = "_R_"
"""What the server puts in place of the reply of another account. It refuses clients that name such a reply."""
REPLY_CHARACTERS: Final = 1_024
TEXT_CHARACTERS: Final = 512
"""The most of an error's text in a header; the body has the whole text."""

ERROR_BYTES: Final = 32_768
"""The most that the body of an error has. It may repeat parts of a request, and an answer over the server's payload
limit would end the worker's connection."""

DETAIL_CHARACTERS: Final = 2_048
"""The most of the detail, and of each text in the context, where a body is over its limit."""

LOG_SECONDS: Final = 10.0
SHOWN: Final = 200

_INBOX: Final = re.compile(r"(_INBOX(?:_[^.*>\s\x00-\x1f\x7f]+)?|_R_)(?:\.[^.*>\s\x00-\x1f\x7f]+)+")


def inbox_of(reply: str) -> str | None:
    """The inbox prefix of a reply subject; None for one that is no inbox, or that is malformed."""
    match = _INBOX.fullmatch(reply) if len(reply) <= REPLY_CHARACTERS else None
    return match[1] if match else None


def sender_in(tokens: Sequence[str]) -> Sender | None:
    """Who sent a request, by the tokens of its subject; None where they do not say so."""
    try:
        return sender_of(tokens[2], tokens[3]) if tokens[0] == "hive" and len(tokens) > 4 else None
    except HiveError:
        return None


@lru_cache(maxsize=4_096)
def own_inbox(sender: Sender) -> str:
    """Return the inbox prefix that belongs to this agent alone."""
    return inbox_prefix(sender.tenant, sender.agent)


def error_headers(error: HiveError) -> dict[str, str]:
    return {TEXT_HEADER: one_line(f"{error.name}: {error.detail}"), CODE_HEADER: str(error.code)}


def one_line(text: str) -> str:
    """A text for a header: without control characters or halves of surrogate pairs, and not long."""
    line = "".join([character if character.isprintable() else " " for character in text[: 2 * TEXT_CHARACTERS]])
    line = " ".join(line.split())
    return line if len(line) <= TEXT_CHARACTERS else f"{line[: TEXT_CHARACTERS - 1]}…"


def error_body(error: HiveError) -> bytes:
    """The JSON of an error, with long texts cut where all of them would be too long to send."""
    try:
        body = orjson.dumps(error.body())
    except TypeError:  # half of a surrogate pair, or a value that is no JSON
        return orjson.dumps(_shortened(error, {}))
    return body if len(body) <= ERROR_BYTES else orjson.dumps(_shortened(error, error.context))


def _shortened(error: HiveError, context: Mapping[str, Any]) -> dict[str, Any]:
    texts = {name: value[:DETAIL_CHARACTERS] for name, value in context.items() if isinstance(value, str)}
    numbers = {name: value for name, value in context.items() if isinstance(value, int | float)}
    detail = error.detail[:DETAIL_CHARACTERS].encode("utf-8", "replace").decode()
    return {"error": {**error.body()["error"], "detail": detail, "context": {**texts, **numbers}}}


class Unanswered:
    """Counts replies that are not allowed. The log tells of them now and then, however many come."""

    def __init__(self) -> None:
        self.count = 0
        self._told = 0
        self._next = 0.0

    def add(self, subject: str, reply: str) -> None:
        self.count += 1
        now = time.monotonic()
        if now >= self._next:
            since, self._told, self._next = self.count - self._told, self.count, now + LOG_SECONDS
            log.warning("no answer goes there", subject=subject[:SHOWN], reply=reply[:SHOWN], since_last=since)
