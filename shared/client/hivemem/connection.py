"""The connection to NATS that a client and its copies share, and the only place that knows nats-py.

Replies come back on one subject of the connection's own. The read loop itself hands them to their callers, without a
queue or a task in between, which makes a request cheap.
"""

import asyncio
import errno
import itertools
import logging
import socket
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import Any, Final, NamedTuple, cast

import nats.errors
from nats.aio.client import Client
from nats.aio.msg import Msg

from hivemem.direct import Direct
from hivemem.shared_attempt import SharedAttempt
from hivemem_contracts.errors import Forbidden, TooLarge, Unavailable
from hivemem_contracts.identifiers import new_id
from hivemem_contracts.nats_client import harden, supervise
from hivemem_contracts.servers import server_list, shown_servers

log = logging.getLogger("hivemem")

RECONNECT_WAIT_SECONDS: Final = 0.25
PING_INTERVAL_SECONDS: Final = 10
FLUSH_SECONDS: Final = 5.0
PENDING_BYTES: Final = 16 * 1024 * 1024
_HEADER_LINE_BYTES: Final = 4
_HEADER_FRAME_BYTES: Final = 12


class NoAnswer(Exception):
    """One attempt of a request ended without an answer. `reason` is `no_responders`, `timeout` or `disconnected`."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Outgoing(NamedTuple):
    """A message to send."""

    subject: str
    payload: bytes
    headers: dict[str, str] | None


class ClientClosed(RuntimeError):
    """The client was used after it was closed."""

    def __init__(self) -> None:
        super().__init__("this client is closed")


class Connection:
    """A connection that reconnects without a time limit, even when nats-py closes for good, as for expired
    credentials."""

    def __init__(
        self,
        url: str,
        inbox: str,
        name: str,
        options: Mapping[str, Any],
        *,
        connect_timeout_seconds: float,
        retry_refused: bool,
    ) -> None:
        """Prepare a connection, which its first use opens. Raises `ValueError` for a malformed address."""
        self.shown_url = shown_servers(url)
        """The addresses of the servers, without passwords."""
        self._servers = server_list(url)
        self.epoch = 0
        """Grows with every new connection: the server may have lost its memory of the previous one."""
        self._inbox = inbox
        self._name = name
        self._options = options
        self._connect_timeout_seconds = connect_timeout_seconds
        self._retry_refused = retry_refused
        self._client = Client()
        self._opening = SharedAttempt(self._open)
        self._reply_prefix = f"{inbox}.{new_id()}."
        self._waiting: dict[str, asyncio.Future[Msg]] = {}
        self._numbers = itertools.count(1)
        self._up = asyncio.Event()
        self._refused = asyncio.Event()
        self._unreachable = asyncio.Event()
        self._failed_attempts = 0
        self._last_error: Exception | None = None
        self._closed = False
        self._ended = False
        self._rebuilding: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._background: set[asyncio.Task[None]] = set()
        self._watchers: set[Callable[[], None]] = set()

    async def open(self) -> None:
        """Connect, unless that is done. All callers wait for one attempt; after a failure the next call tries again.

        Raises `Unavailable` if no server answers in time, or, without `retry_refused`, as soon as every server has
        refused the connection or has an unknown name. Raises `Forbidden` if the server refuses the credentials, and
        `ClientClosed`.
        """
        if self._closed:
            raise ClientClosed
        loop = asyncio.get_running_loop()
        if self._loop is None:
            self._loop = loop
        elif self._loop is not loop:
            raise RuntimeError(
                "this client belongs to another event loop: make one in each, or use hivemem.sync in plain functions"
            )
        if not self.epoch:
            try:
                await self._opening.wait()
            except asyncio.CancelledError:
                if self._closed:
                    raise ClientClosed from None
                raise

    async def _open(self) -> None:
        timeout_seconds = self._connect_timeout_seconds
        self._refused.clear()
        self._unreachable.clear()
        self._failed_attempts = 0
        connecting = asyncio.ensure_future(self._connect())
        hopeless = [asyncio.ensure_future(self._refused.wait())]
        if not self._retry_refused:
            hopeless.append(asyncio.ensure_future(self._unreachable.wait()))
        try:
            await asyncio.wait((connecting, *hopeless), timeout=timeout_seconds, return_when=asyncio.FIRST_COMPLETED)
            if connecting.done():
                connecting.result()
                return
        except (OSError, nats.errors.Error) as error:
            raise self._no_server(_cause(error)) from error
        finally:
            for waiting in hopeless:
                waiting.cancel()
            if not connecting.done():
                connecting.cancel()
                await asyncio.gather(connecting, return_exceptions=True)
        if self._refused.is_set():
            raise Forbidden(f"{self.shown_url} refuses these credentials: {self._last_error}")
        raise self._no_server(_cause(self._last_error) or f"no answer within {timeout_seconds:g} s")

    def _no_server(self, cause: str) -> Unavailable:
        detail = f"no NATS server at {self.shown_url}: {cause}; is the fleet running? `hivemem up` starts one"
        return Unavailable(detail, reason="disconnected", retry_after_ms=1000, url=self.shown_url, cause=cause)

    async def _connect(self) -> None:
        client = Client()
        harden(client)
        settings: dict[str, Any] = {
            "servers": self._servers,
            "name": self._name,
            "inbox_prefix": self._inbox,
            "max_reconnect_attempts": -1,
            "reconnect_time_wait": RECONNECT_WAIT_SECONDS,
            "ping_interval": PING_INTERVAL_SECONDS,
            "flush_timeout": FLUSH_SECONDS,
            "pending_size": PENDING_BYTES,
            "error_cb": self._on_error,
            "disconnected_cb": self._on_disconnected,
            "reconnected_cb": self._on_connected,
            "closed_cb": self._on_closed,
            **self._options,
        }
        await client.connect(**settings)
        supervise(client)
        self._client = client
        await self._subscribe(f"{self._reply_prefix}*", self._on_reply)
        await self._on_connected()

    async def close(self) -> None:
        """Flush and close. Callers that wait for an answer get `NoAnswer`."""
        self._closed = True
        await self._opening.cancel()
        if self._rebuilding is not None:
            self._rebuilding.cancel()
        if self.epoch:
            await self._client.close()
        self._ended = True
        self._fail_waiting()
        self._up.set()
        self._wake_watchers()

    @property
    def closed(self) -> bool:
        return self._closed

    @property
    def connected(self) -> bool:
        return self._client.is_connected

    @property
    def client(self) -> Client:
        """The current nats-py client; a new one replaces it when the server closes it for good."""
        return self._client

    async def wait_connected(self, timeout_seconds: float) -> bool:
        """Return whether there is a connection, now or within the time. Raises `ClientClosed`."""
        if self.connected:
            return True
        if not self._closed:
            self._up.clear()
        try:
            await asyncio.wait_for(self._up.wait(), timeout_seconds)
        except TimeoutError:
            return self.connected
        if self._closed:
            raise ClientClosed
        return True

    async def request(
        self, subject: str, payload: bytes, headers: dict[str, str] | None, timeout_seconds: float
    ) -> Msg:
        """Send once and wait for one answer; `NoAnswer` without one, `TooLarge` past the server's limit."""
        return await self.request_batch([Outgoing(subject, payload, headers)], timeout_seconds)

    async def request_batch(self, messages: Sequence[Outgoing], timeout_seconds: float) -> Msg:
        """Send several messages once, and wait for the answer to the last one."""
        loop = asyncio.get_running_loop()
        if loop is not self._loop or not self.epoch:
            await self.open()
        for message in messages:
            self._check(message.payload, message.headers)
        token = str(next(self._numbers))
        future: asyncio.Future[Msg] = loop.create_future()
        timer = loop.call_later(timeout_seconds, _time_out, future)
        self._waiting[token] = future
        *ahead, last = messages
        try:
            for sent in ahead:
                await self._client.publish(sent.subject, sent.payload, headers=sent.headers)
            await self._client.publish(last.subject, last.payload, self._reply_prefix + token, last.headers)
            answer = await future
        except nats.errors.MaxPayloadError as error:
            raise self._too_large(max(len(message.payload) for message in messages)) from error
        except nats.errors.Error as error:
            raise NoAnswer("disconnected") from error
        finally:
            timer.cancel()
            self._waiting.pop(token, None)
        if answer.headers is not None and answer.headers.get("Status") == "503":
            raise NoAnswer("no_responders")
        return answer

    async def publish(self, subject: str, payload: bytes = b"", reply: str = "") -> None:
        """Send without waiting. A message that cannot be sent is dropped."""
        try:
            await self._client.publish(subject, payload, reply)
        except nats.errors.Error as error:
            log.debug("not sent to %s: %r", subject, error)

    async def subscribe(self, subject: str, handle: Callable[[Msg], None]) -> Callable[[], Awaitable[None]]:
        """Call `handle` in the read loop for each message, until the returned function is awaited."""
        if self._closed:
            raise ClientClosed
        await self.open()
        return await self._subscribe(subject, handle)

    async def _subscribe(self, subject: str, handle: Callable[[Msg], None]) -> Callable[[], Awaitable[None]]:
        # The parameter is meant for a future; `Direct` has the two methods that nats-py calls on it.
        direct = cast("asyncio.Future[Msg]", Direct(handle))
        try:
            # nats-py does not declare the type of its future's result.
            subscription = await self._client.subscribe(subject, future=direct)  # pyright: ignore[reportUnknownMemberType]
        except nats.errors.Error as error:
            raise NoAnswer("disconnected") from error

        async def unsubscribe() -> None:
            try:
                await subscription.unsubscribe()
            except nats.errors.Error as error:
                log.debug("no longer subscribed to %s: %r", subject, error)

        return unsubscribe

    def new_inbox(self) -> str:
        return f"{self._inbox}.{new_id()}"

    def watch(self, woken: Callable[[], None]) -> Callable[[], None]:
        """Call `woken` when the connection is lost, restored or closed, until the returned function is called."""
        self._watchers.add(woken)
        return lambda: self._watchers.discard(woken)

    def in_background(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run a coroutine without a caller to await it, from any thread, unless the event loop has ended."""
        if self._loop is None or self._loop.is_closed() or self._closed:
            return

        def start() -> None:
            task = asyncio.ensure_future(work())
            self._background.add(task)
            task.add_done_callback(self._background.discard)

        self._loop.call_soon_threadsafe(start)

    def _check(self, payload: bytes, headers: dict[str, str] | None) -> None:
        if self._closed:
            raise ClientClosed
        if not self.connected:
            raise NoAnswer("disconnected")
        size = len(payload)
        # nats-py counts the body alone. The server counts the headers too, and closes the connection over it.
        if headers:
            size += _HEADER_FRAME_BYTES
            for name, value in headers.items():
                size += len(name) + len(value.encode()) + _HEADER_LINE_BYTES
        if size > self._client.max_payload:
            raise self._too_large(size)

    def _too_large(self, size: int) -> TooLarge:
        limit = self._client.max_payload
        return TooLarge(
            f"body: {size} bytes with its headers, the server accepts {limit}", field="body", limit=limit, actual=size
        )

    def _on_reply(self, message: Msg) -> None:
        future = self._waiting.get(message.subject[len(self._reply_prefix) :])
        if future is not None and not future.done():
            future.set_result(message)

    def _fail_waiting(self) -> None:
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(NoAnswer("disconnected"))

    def _wake_watchers(self) -> None:
        for woken in tuple(self._watchers):
            woken()

    async def _on_connected(self) -> None:
        self.epoch += 1
        self._last_error = None
        self._up.set()
        self._wake_watchers()

    async def _on_disconnected(self) -> None:
        self._up.clear()
        self._fail_waiting()
        self._wake_watchers()

    async def _on_closed(self) -> None:
        if not self._closed and self._rebuilding is None:
            log.warning("the server closed the connection for good; connecting anew")
            self._rebuilding = asyncio.ensure_future(self._rebuild())

    async def _rebuild(self) -> None:
        while not self._closed:
            await asyncio.sleep(RECONNECT_WAIT_SECONDS)
            try:
                await self._connect()
            except Exception as error:  # nobody else retries, so no error may end the loop
                log.debug("not connected yet: %r", error)
            else:
                self._rebuilding = None
                return

    async def _on_error(self, error: Exception) -> None:
        if self._ended:
            # A reconnect that fails at the moment of its cancellation misses it, and would continue for ever.
            raise asyncio.CancelledError
        self._last_error = error
        if "authorization violation" in str(error).lower():
            self._refused.set()
        if isinstance(error, OSError) and not isinstance(error, TimeoutError):
            self._failed_attempts += 1
            if self._failed_attempts >= len(self._servers):
                self._unreachable.set()
        log.debug("connection: %r", error)


def _cause(error: Exception | None) -> str:
    """Return why a connection failed, in words; the empty string if the server only failed to answer."""
    if error is None or isinstance(error, TimeoutError):
        return ""
    if isinstance(error, socket.gaierror):
        return "the host name is unknown"
    # Where a name has several addresses, asyncio raises one error with the texts of all.
    if f"[Errno {errno.ECONNREFUSED}]" in str(error):
        return "connection refused"
    return str(error)


def _time_out(future: asyncio.Future[Msg]) -> None:
    if not future.done():
        future.set_exception(NoAnswer("timeout"))
