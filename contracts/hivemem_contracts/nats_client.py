"""Repairs for the client of nats-py: a parser that accepts any message, and supervision of its loops.

Without them its read loop ends at a header block without a version line, at a subject that is not UTF-8, and at a late
answer to a ping. It splits a subject at a vertical tab. It closes for good at most errors of the server. Nothing starts
an ended loop again. Callers pass their client in, so the contracts need no nats-py.
"""

import asyncio
import json
import logging
from typing import Any, Final, cast

from hivemem_contracts.frames import BrokenStream, Frames, Headers, Line, parse_headers

log = logging.getLogger("hivemem.nats")

LOOK_SECONDS: Final = 0.5
_PASSING: Final = ("permissions violation", "stale connection")
"""Errors that nats-py handles without closing: it reports the first and reconnects at the second."""
_LOOPS: Final = {"read": "_reading_task", "flush": "_flusher_task", "ping": "_ping_interval_task"}


def harden(client: Any) -> None:
    """Replace the parser of a client that has not connected yet, so that no message can end its read loop."""
    client._ps = _Reader(client)
    client._process_headers = _read_headers


def supervise(client: Any) -> None:
    """Watch a connected client until it is closed. It reconnects within a second after one of its loops has ended, and
    after four ping intervals without a word from the server."""
    _Supervision(client).look()


def trouble(client: Any) -> str | None:
    """Return why a connection does not work right now, or None if it works."""
    if client.is_closed:
        return "the connection is closed for good"
    ended = _ended(client)
    if ended is not None:
        return ended
    if not client.is_connected:
        return f"not connected: {client.last_error!r}" if client.last_error else "not connected"
    return None


def _ended(client: Any) -> str | None:
    if client.is_connected:
        for name, attribute in _LOOPS.items():
            if _is_over(getattr(client, attribute)):
                return f"the {name} loop has ended"
    elif _is_over(client._reconnection_task):
        return "the reconnect loop has ended"
    return None


def _is_over(task: asyncio.Task[Any] | None) -> bool:
    return task is None or task.done()


class _Supervision:
    def __init__(self, client: Any) -> None:
        self._client = client
        self._loop = asyncio.get_running_loop()
        self._looked_at = self._loop.time()
        self._reviving: asyncio.Task[None] | None = None

    def look(self) -> None:
        client = self._client
        if client.is_closed:
            return
        wrong = _ended(client) or self._silence()
        if wrong is not None:
            log.error("connection %r: %s; reconnecting", client.options.get("name"), wrong)
            self._reviving = self._loop.create_task(self._revive())
        elif client.is_reconnecting:
            self._stop_sending()
        self._looked_at = self._loop.time()
        # A timer, not a task: the event loop drops it where a program ends without closing its client.
        self._loop.call_later(LOOK_SECONDS, self.look)

    def _silence(self) -> str | None:
        """Detect a silent server. The client's own pings detect it too, unless a full send queue blocks them."""
        client, reader, now = self._client, self._client._ps, self._loop.time()
        paused = now - self._looked_at > 2 * LOOK_SECONDS  # this process, not the server
        if paused or not client.is_connected:
            reader.heard_at = now
        pings = client.options["max_outstanding_pings"] + 2
        return "the server is silent" if now - reader.heard_at > pings * client.options["ping_interval"] else None

    async def _revive(self) -> None:
        client = self._client
        if client.is_connected:
            await client.force_reconnect()
        else:
            client._reconnection_task = self._loop.create_task(client._attempt_reconnect())

    def _stop_sending(self) -> None:
        """Drop unsent bytes: closing waits for them, and a server that hangs never reads them."""
        writer = getattr(self._client._transport, "_io_writer", None)
        if writer is not None and writer.transport.is_closing():
            writer.transport.abort()


async def _read_headers(block: bytes | None) -> Headers | None:
    return parse_headers(block) if block else None


class _Reader:
    """Replaces the client's own parser."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self._frames = Frames()
        self.heard_at = asyncio.get_running_loop().time()

    def reset(self) -> None:
        self._frames.clear()

    async def parse(self, data: bytes = b"") -> None:
        """Raises `BrokenStream`, an `OSError`: the read loop then reconnects."""
        self.heard_at = asyncio.get_running_loop().time()
        for frame in self._frames.feed(data):
            if isinstance(frame, Line):
                await self._hear(frame)
                continue
            try:
                await self._client._process_msg(
                    frame.subscription, frame.subject, frame.reply, frame.data, frame.headers or None
                )
            except Exception:
                log.exception("a message on %r could not be handed over", frame.subject)

    async def _hear(self, line: Line) -> None:
        client = self._client
        match line.word:
            case b"PING":
                await client._process_ping()
            case b"PONG":
                self._answered()
            case b"+OK":
                return
            case b"INFO":
                await client._process_info(_description(line.rest))
            case b"-ERR":
                await self._refused(line.rest.decode("utf-8", "backslashreplace").lower())
            case _:
                raise BrokenStream(f"a server says no {line.word[:16]!r}")

    def _answered(self) -> None:
        client = self._client
        if client._pongs:
            waiting = client._pongs.pop(0)
            client._pongs_received += 1
            client._pings_outstanding = 0
            if not waiting.done():  # its caller may have timed out
                waiting.set_result(True)

    async def _refused(self, error: str) -> None:
        client = self._client
        if any(known in error for known in _PASSING):
            await client._process_err(error)
            return
        log.warning("connection %r: the server says %s; reconnecting", client.options.get("name"), error)
        await client._error_cb(ConnectionError(f"nats: {error}"))
        await client.force_reconnect()


def _description(text: bytes) -> dict[str, Any]:
    try:
        found: Any = json.loads(text)
    except ValueError as error:
        raise BrokenStream("the server's description is no JSON") from error
    if not isinstance(found, dict):
        raise BrokenStream("the server's description is no object")
    return cast("dict[str, Any]", found)
