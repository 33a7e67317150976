"""Frames of the NATS protocol, for what publishes thousands of messages a second.

`Client.publish` checks, copies and wakes the flusher for each message; a batch of frames does it once.
"""

from collections.abc import Iterable, Mapping
from typing import Final

import nats.errors
from nats.aio.client import Client

_VERSION: Final = "NATS/1.0\r\n"


def header_lines(headers: Mapping[str, str]) -> str:
    """Headers as they travel, without the version line and the blank one. The caller's values hold no line breaks."""
    return "".join([f"{name}: {value}\r\n" for name, value in headers.items()])


def frame(subject: str, lines: str, body: bytes, reply: str = "") -> bytes:
    """One message with headers."""
    head = f"{_VERSION}{lines}\r\n".encode()
    return b"HPUB %b %b%d %d\r\n%b%b\r\n" % (
        subject.encode(),
        f"{reply} ".encode() if reply else b"",
        len(head),
        len(head) + len(body),
        head,
        body,
    )


def plain_frame(subject: str, body: bytes) -> bytes:
    """One message without headers."""
    return b"PUB %b %d\r\n%b\r\n" % (subject.encode(), len(body), body)


async def send(client: Client, frames: Iterable[bytes]) -> None:
    """Hand frames to the connection together. Raises `nats.errors.Error` where it cannot take them."""
    if client.is_closed:
        raise nats.errors.ConnectionClosedError
    if not client.is_connected:
        raise nats.errors.ConnectionReconnectingError
    await client._send_command(b"".join(frames))  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
    await client._flush_pending()  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]


def server_id(client: Client) -> str:
    """Return the id of the server that a client is connected to; a server has another one each time that it starts."""
    return str(client._server_info.get("server_id", ""))  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
