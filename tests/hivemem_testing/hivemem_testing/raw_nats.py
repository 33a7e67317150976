"""A connection to NATS for raw bytes that no client library would write, but the server accepts."""

import asyncio
from typing import Final, Self
from urllib.parse import urlsplit

ANSWER_SECONDS: Final = 20.0
HEADER_BLOCKS: Final = (
    b"\r\n\r\n",
    b"NATS/1.0\r\n\r\n",
    b"NATS/1.0",
    b"NATS/1.0\r\nNats-Msg-Id: cut",
    b"NATS/1.0\r\nNats-Msg-Id: without the blank line\r\n",
    b"NATS/1.0\nNats-Msg-Id: lines\n\n",
    b"HTTP/1.1 200 OK\r\n\r\n",
    b"NATS/1.0\r\nFirst: 1\r\n\r\nSecond: 2\r\n\r\n",
    b"NATS/1.0\r\nNats-Pin-Id: forg",
    b"NATS/1.0 404 No Messages\r\n\r\n",
    b"NATS/1.0 503\r\n\r\n",
    b"NATS/1.0 100 Idle Heartbeat\r\n\r\n",
    b"NATS/1.0 \xff\xff\xff \xff\r\n\r\n",
    b"x",
    b"\r\n",
    b"abc",
    b"\0\0\0\0",
    bytes(range(256)),
)
"""Invalid header blocks."""


class RawNats:
    """Publishes any header block with any data."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def connect(cls, url: str) -> Self:
        address = urlsplit(url)
        reader, writer = await asyncio.open_connection(address.hostname, address.port)
        raw = cls(reader, writer)
        await raw.send(b'CONNECT {"verbose":false,"headers":true,"no_responders":true}\r\n')
        return raw

    async def publish(self, subject: bytes, headers: bytes | None, body: bytes, reply: bytes = b"") -> None:
        """Publish, and return once the server has the message."""
        place = b" ".join(filter(None, (subject, reply)))
        if headers is None:
            frame = b"PUB %b %d\r\n%b\r\n" % (place, len(body), body)
        else:
            frame = b"HPUB %b %d %d\r\n%b%b\r\n" % (place, len(headers), len(headers) + len(body), headers, body)
        await self.send(frame)

    async def send(self, frames: bytes) -> None:
        self._writer.write(frames + b"PING\r\n")
        async with asyncio.timeout(ANSWER_SECONDS):
            while not (line := await self._reader.readline()).startswith(b"PONG"):
                if not line or line.startswith(b"-ERR"):
                    raise AssertionError(f"the server does not take it: {line!r}")
                if line.startswith(b"PING"):
                    self._writer.write(b"PONG\r\n")

    async def close(self) -> None:
        self._writer.close()
        await self._writer.wait_closed()
