"""A connection to NATS that survives restarts of the server, and refuses one that is too old."""

import asyncio
from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

import nats.errors
import structlog
from nats.aio.client import Client as Client

from hivemem_contracts.errors import Unavailable
from hivemem_contracts.nats_client import harden, supervise
from hivemem_contracts.nats_client import trouble as trouble
from hivemem_contracts.servers import server_list, shown_servers
from hivemem_contracts.streams import MINIMUM_SERVER
from hivemem_runtime.bus.wire import read_ahead

log = structlog.get_logger("hivemem.bus")

RECONNECT_WAIT_SECONDS = 0.25
PING_INTERVAL_SECONDS = 10
"""A server that hangs is noticed at the third ping."""
GIVING_UP_SECONDS = 0.1
PENDING_BYTES = 64 * 1024 * 1024

_listeners: WeakKeyDictionary[Client, list[Callable[[], None]]] = WeakKeyDictionary()


class ServerTooOld(Exception):
    """The NATS server lacks what the fleet is built on."""


async def connect(url: str, name: str, *, timeout_seconds: float = 5.0, **options: Any) -> Client:
    """Connect to the first server of a list that answers, and check its version. Reconnects by itself for as long as
    it takes, once connected. Raises `Unavailable` where none answers in time."""
    client = Client()
    harden(client)
    read_ahead()

    async def disconnected() -> None:
        if not client.is_closed:  # a close is reported here, too
            log.warning("disconnected", connection=name)

    async def reconnected() -> None:
        log.info("reconnected", connection=name)
        for listener in tuple(_listeners.get(client, ())):
            try:
                listener()
            except Exception:
                log.exception("a listener failed at a reconnect", connection=name)

    async def failed(error: Exception) -> None:
        log.debug("connection error", connection=name, error=repr(error))

    connecting = asyncio.create_task(
        client.connect(
            server_list(url),
            name=name,
            max_reconnect_attempts=-1,
            reconnect_time_wait=RECONNECT_WAIT_SECONDS,  # type: ignore[arg-type]  # any number of seconds
            ping_interval=PING_INTERVAL_SECONDS,
            pending_size=PENDING_BYTES,
            disconnected_cb=disconnected,
            reconnected_cb=reconnected,
            error_cb=failed,
            **options,
        )
    )
    try:
        await asyncio.wait((connecting,), timeout=timeout_seconds)
        if not connecting.done():
            raise TimeoutError(f"no answer within {timeout_seconds:g} s, last {client.last_error!r}")
        connecting.result()
    except (OSError, nats.errors.Error) as error:
        raise Unavailable(f"NATS at {shown_servers(url)} cannot be reached: {error}", retry_after_ms=1000) from error
    finally:
        await _give_up(connecting)
    supervise(client)
    try:
        require_version(client)
    except ServerTooOld:
        await client.close()
        raise
    return client


async def _give_up(connecting: "asyncio.Task[None]") -> None:
    """Cancel until it ends: the client library loses a cancellation that comes together with a failed attempt."""
    while not connecting.done():
        connecting.cancel()
        await asyncio.wait((connecting,), timeout=GIVING_UP_SECONDS)


def on_reconnect(client: Client, listener: Callable[[], None]) -> Callable[[], None]:
    """Call `listener` after each reconnect, when all subscriptions are restored. Messages published in between are
    lost. Call the result to stop this."""
    listeners = _listeners.setdefault(client, [])
    listeners.append(listener)
    return lambda: listeners.remove(listener)


def server_version(client: Client) -> tuple[int, int, int]:
    version = client.connected_server_version
    return version.major, version.minor, version.patch


def require_version(client: Client) -> None:
    found = server_version(client)
    if found < MINIMUM_SERVER:
        needed, has = (".".join(map(str, version)) for version in (MINIMUM_SERVER, found))
        raise ServerTooOld(
            f"nats-server {has} at {client.connected_url.netloc if client.connected_url else '?'} is too old: "
            f"Hivemem needs {needed} or newer (pinned consumers that can be reset)"
        )
