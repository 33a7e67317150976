"""Frames of the NATS protocol, for publishing thousands of messages a second.

`Client.publish` checks, copies and wakes the flusher for each message; a batch of frames does it once.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import nats.aio.client
import nats.errors
from nats.aio.client import Client

READ_BYTES: Final = 2 * 1024 * 1024
"""How much the client reads at once. With its own 32 KiB it gets 256 KiB at most in one turn of the event loop. A
worker that also works in each turn then reads too slowly during a burst, and the server cuts it off."""

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


async def write(client: Client, frames: Sequence[bytes]) -> None:
    """Write frames to the socket, and return when nearly all of them have left. Raises `nats.errors.Error` or `OSError`
    where the connection does not take them."""
    if client.is_closed:
        raise nats.errors.ConnectionClosedError
    if not client.is_connected:
        raise nats.errors.ConnectionReconnectingError
    transport: Any = client._transport  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
    transport.write(b"".join(frames))
    await transport.drain()


def read_ahead() -> None:
    """Have clients of this process that connect from now on read more at once."""
    nats.aio.client.DEFAULT_BUFFER_SIZE = READ_BYTES
