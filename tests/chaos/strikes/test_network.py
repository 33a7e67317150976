"""A cut stops what its kind says, on the connections that it hits, for its duration only."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress

import pytest

from hivemem_testing.ports import LOOPBACK

from .network import Cut, How, Network, always

SILENCE_SECONDS = 0.2


class Echo:
    """A server that echoes its input; `heard` has all of it."""

    def __init__(self) -> None:
        self.heard = b""

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(100):
                self.heard += data
                writer.write(data)
        writer.close()


@pytest.fixture
async def echo() -> AsyncIterator[tuple[Echo, Network, int]]:
    found = Echo()
    server = await asyncio.start_server(found.connected, LOOPBACK, 0)
    with Network() as network:
        yield found, network, network.relay("echo", server.sockets[0].getsockname()[1], always("test"))
    server.close()


async def answered(reader: asyncio.StreamReader) -> bytes:
    try:
        return await asyncio.wait_for(reader.read(100), SILENCE_SECONDS)
    except TimeoutError:
        return b"silence"


@pytest.mark.parametrize(("how", "heard"), [("silent", b""), ("deaf", b""), ("mute", b"hello")])
async def test_what_a_cut_stalls_arrives_when_it_ends(how: How, heard: bytes, echo: tuple[Echo, Network, int]) -> None:
    server, network, port = echo
    reader, writer = await asyncio.open_connection(LOOPBACK, port)
    writer.write(b".")
    assert await reader.read(1) == b"."
    cut = Cut(how, lambda source, target: (source, target) == ("test", "echo"))
    with network.cut(cut, reset_at_end=False):
        writer.write(b"hello")
        assert await answered(reader) == b"silence"
        assert server.heard == b"." + heard
    assert await reader.read(5) == b"hello"
    assert cut.connections == 1
    writer.close()


async def test_a_reset_ends_connections_and_refuses_new_ones(echo: tuple[Echo, Network, int]) -> None:
    _, network, port = echo
    reader, writer = await asyncio.open_connection(LOOPBACK, port)
    writer.write(b".")
    assert await reader.read(1) == b"."
    with network.cut(Cut("reset", lambda _, target: target == "echo"), reset_at_end=False):
        for each in (reader, (await asyncio.open_connection(LOOPBACK, port))[0]):
            with suppress(ConnectionResetError):
                assert await each.read(1) == b""
    again, writer = await asyncio.open_connection(LOOPBACK, port)
    writer.write(b"!")
    assert await again.read(1) == b"!"
    writer.close()


async def test_a_cut_spares_the_connections_of_others(echo: tuple[Echo, Network, int]) -> None:
    _, network, port = echo
    reader, writer = await asyncio.open_connection(LOOPBACK, port)
    with network.cut(Cut("silent", lambda source, _: source == "another"), reset_at_end=True):
        writer.write(b"hello")
        assert await reader.read(5) == b"hello"
    writer.close()
