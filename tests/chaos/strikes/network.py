"""TCP relays on loopback that can be cut: between workers and servers, and between the members of a cluster."""

import asyncio
import socket
import struct
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Final, Literal, Self

from hivemem_testing.ports import LOOPBACK, free_port

How = Literal["silent", "deaf", "mute", "reset"]
"""Nothing passes (silent), nothing passes to the target (deaf) or from it (mute), or connections are reset."""
HOWS: Final[tuple[How, ...]] = ("silent", "deaf", "mute", "reset")
Ends = Callable[[str, str], bool]
"""Tells whether a cut hits the connections from a source to a target, both by name."""

Source = Callable[[int, int], str]
"""Returns the name of the process that connects, given its port and that of the relay."""

_BYTES: Final = 65_536
_STALLED: Final[dict[How, tuple[bool, bool]]] = {
    "silent": (True, True),
    "deaf": (True, False),
    "mute": (False, True),
    "reset": (False, False),
}
_RESET_ON_CLOSE: Final = struct.pack("ii", 1, 0)


def always(name: str) -> Source:
    """Return the source of a relay that only one process uses."""

    def source(port: int, relay: int) -> str:
        del port, relay
        return name

    return source


@dataclass(eq=False)
class Cut:
    how: How
    ends: Ends
    connections: int = 0
    """The number of connections that the cut has hit."""

    def stalls(self, connection: "_Connection", *, back: bool) -> bool:
        return _STALLED[self.how][back] and self.ends(connection.source, connection.target)


@dataclass(frozen=True, eq=False)
class _Connection:
    source: str
    target: str
    near: asyncio.StreamWriter
    far: asyncio.StreamWriter

    def reset(self) -> None:
        for writer in (self.near, self.far):
            end: socket.socket = writer.get_extra_info("socket")
            with suppress(OSError):
                end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
            writer.transport.abort()


class Network:
    """The relays run in a thread with an event loop of its own, since a test may block its own loop."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="relays")
        self._servers: list[asyncio.Server] = []
        self._connections: set[_Connection] = set()
        self._cuts: set[Cut] = set()
        self._changed = asyncio.Event()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def relay(self, target: str, port: int, source: Source) -> int:
        """Return a port that leads to `port`. `source` may block, and runs in a thread."""
        listening = free_port()

        async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            with suppress(asyncio.CancelledError):  # cancelled at the end; the caller would log it
                await self._carry(target, port, source, reader, writer)

        starting = asyncio.run_coroutine_threadsafe(asyncio.start_server(connected, LOOPBACK, listening), self._loop)
        self._servers.append(starting.result())
        return listening

    @contextmanager
    def cut(self, cut: Cut, *, reset_at_end: bool) -> Generator[None]:
        """Cut connections for a while. Stalled bytes arrive at the end, unless the connections are reset then."""
        asyncio.run_coroutine_threadsafe(self._begin(cut), self._loop).result()
        try:
            yield
        finally:
            self._loop.call_soon_threadsafe(self._heal, cut, reset_at_end)

    async def _begin(self, cut: Cut) -> None:
        self._cuts.add(cut)
        cut.connections = len(self._hit_by(cut))
        if cut.how == "reset":
            self._reset(cut)

    def _heal(self, cut: Cut, reset: bool) -> None:
        self._cuts.remove(cut)
        if reset:
            self._reset(cut)
        self._changed.set()
        self._changed = asyncio.Event()

    def _reset(self, cut: Cut) -> None:
        for connection in self._hit_by(cut):
            connection.reset()

    def _hit_by(self, cut: Cut) -> list[_Connection]:
        return [each for each in self._connections if cut.ends(each.source, each.target)]

    async def _carry(
        self,
        target: str,
        port: int,
        source: Source,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        ports = writer.get_extra_info("peername")[1], writer.get_extra_info("sockname")[1]
        name = await asyncio.to_thread(source, *ports)
        refused = any(cut.how == "reset" and cut.ends(name, target) for cut in self._cuts)
        try:
            if refused:
                raise ConnectionRefusedError
            far_reader, far = await asyncio.open_connection(LOOPBACK, port)
        except OSError:
            writer.transport.abort()
            return
        connection = _Connection(name, target, writer, far)
        self._connections.add(connection)
        try:
            await asyncio.gather(
                self._pump(connection, reader, far, back=False), self._pump(connection, far_reader, writer, back=True)
            )
        finally:
            self._connections.discard(connection)
            connection.reset()

    async def _pump(
        self, connection: _Connection, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, back: bool
    ) -> None:
        with suppress(OSError):
            while True:
                data = await reader.read(_BYTES)
                while any(cut.stalls(connection, back=back) for cut in self._cuts):
                    await self._changed.wait()
                if not data:
                    break
                writer.write(data)
                await writer.drain()
        writer.close()

    async def _end(self) -> None:
        for server in self._servers:
            server.close()
        mine = asyncio.current_task()
        tasks = [task for task in asyncio.all_tasks() if task is not mine]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
