"""A parser of the bytes that a NATS server sends. No content of a message can make it raise.

Subjects and header blocks arrive as their publisher wrote them, because the server checks neither. A subject holds any
bytes except spaces, tabs and line breaks. A header block holds any bytes.
"""

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Final, NamedTuple

LINE_BYTES: Final = 1_048_576
"""The longest line is `INFO`, which lists the addresses of a cluster."""

STATUS: Final = "Status"
DESCRIPTION: Final = "Description"
_RESERVED: Final = (STATUS, DESCRIPTION)
_VERSION: Final = "NATS/1.0"
_STATUS_DIGITS: Final = 3
_END: Final = b"\r\n"
# The server separates arguments by one space, at times by two. Other white space can be part of a subject.
_PLAIN: Final = re.compile(rb"MSG ([^ \r\n]+) (\d{1,18}) +(?:([^ \r\n]+) )?()(\d{1,10})\r\n")
_WITH_HEADERS: Final = re.compile(rb"HMSG ([^ \r\n]+) (\d{1,18}) +(?:([^ \r\n]+) )?(\d{1,10}) (\d{1,10})\r\n")
_SPACE: Final = " \t\n\r\x0b\x0c"


class BrokenStream(ConnectionError):
    """The bytes are not the protocol of NATS, so nothing that follows them can be understood."""


class Delivered(NamedTuple):
    """One message. Bytes of a subject that are not UTF-8 are replaced by `\\xNN`."""

    subject: bytes
    subscription: int
    reply: bytes
    headers: bytes
    data: bytes


class Line(NamedTuple):
    """One line without a message: `PING`, `PONG`, `+OK`, `INFO` or `-ERR`."""

    word: bytes
    rest: bytes


class Frames:
    """Cuts the bytes of a connection into messages and lines."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def clear(self) -> None:
        """Forget the bytes of the last connection."""
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[Delivered | Line]:
        """Yield each complete message and line. Raises `BrokenStream`."""
        buffer, place = self._buffer, 0
        buffer += data
        try:
            while self._buffer is buffer:
                found = _PLAIN.match(buffer, place) or _WITH_HEADERS.match(buffer, place)
                if found is None:
                    end = _line_end(buffer, place)
                    if end < 0:
                        break
                    line = _line(bytes(buffer[place:end]))
                    place = end + len(_END)
                    yield line
                    continue
                subject, subscription, reply, headers_size, size = found.groups(b"")
                body = found.end()
                end = body + int(size)
                if len(buffer) < end + len(_END):
                    break
                data_at = body + int(headers_size or 0)
                if data_at > end or not buffer.startswith(_END, end):
                    raise BrokenStream(f"a message of {int(size)} bytes does not end where it should")
                place = end + len(_END)
                yield Delivered(
                    subject if subject.isascii() else _in_utf8(subject),
                    int(subscription),
                    reply if reply.isascii() else _in_utf8(reply),
                    bytes(buffer[body:data_at]),
                    bytes(buffer[data_at:end]),
                )
        finally:
            del buffer[:place]


def _line_end(buffer: bytearray, place: int) -> int:
    end = buffer.find(_END, place)
    if end < 0 and len(buffer) - place > LINE_BYTES:
        raise BrokenStream(f"a line has more than {LINE_BYTES} bytes")
    return end


def _line(sent: bytes) -> Line:
    word, _, rest = sent.partition(b" ")
    if word in (b"MSG", b"HMSG"):
        raise BrokenStream(f"{word!r} without its arguments")
    return Line(word, rest)


def _in_utf8(subject: bytes) -> bytes:
    return subject.decode("utf-8", "backslashreplace").encode()


class Headers(dict[str, str]):
    """The headers of a message by name; a repeated name has its last value.

    `Status` and `Description` come from the first line alone, which the server writes. Header lines of these names are
    left out, because any publisher can write them.
    """

    __slots__ = ("block",)
    block: bytes
    """Return the raw bytes of the block."""


def parse_headers(block: bytes) -> Headers:
    """Read the header lines of a block and skip everything else. Bytes that are not UTF-8 become `\\xNN`."""
    found = Headers()
    found.block = block
    first, *lines = block.decode("utf-8", "backslashreplace").split("\r\n")
    if not first.startswith(_VERSION):
        lines.insert(0, first)
    elif len(first) > len(_VERSION):
        _read_status(first.removeprefix(_VERSION), found)
    for line in lines:
        sent, separator, value = line.partition(":")
        name = _header_name(sent) if separator else None
        if name is not None:
            found[name] = value.strip(_SPACE)
    return found


def _read_status(said: str, found: Headers) -> None:
    status, _, description = said.strip(_SPACE).partition(" ")
    if len(status) == _STATUS_DIGITS and status.isascii() and status.isdigit():
        found[STATUS] = status
        if description:
            found[DESCRIPTION] = description


@lru_cache(maxsize=256)
def _header_name(sent: str) -> str | None:
    """Return None for an invalid name."""
    name = sent.strip(_SPACE)
    unusable = not name or name in _RESERVED or not name.isascii() or any(space in name for space in _SPACE)
    return None if unusable else name
