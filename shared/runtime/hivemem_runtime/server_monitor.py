"""What the nats-server tells on its monitoring port: whether its streams take writes, and what a power cut may lose."""

import asyncio
from contextlib import suppress
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

import orjson
import structlog

from hivemem_runtime.loops import Loop

log = structlog.get_logger("hivemem.monitor")

ASK_SECONDS: Final = 2.0
LOOK_SECONDS: Final = 2.0
NANOSECONDS: Final = 1_000_000_000
ANSWER_BYTES: Final = 4 * 1024 * 1024
WRITE_ERROR: Final = "write error"
"""Of a stream that met a full disk: the server stores nothing in it any more before it is restarted."""


class MonitorPage(NamedTuple):
    status: int
    body: dict[str, Any]


async def get(url: str, path: str) -> MonitorPage:
    """Return one page of JSON. Raises `OSError` where the server answers no such page."""
    parts = urlsplit(url)
    try:
        async with asyncio.timeout(ASK_SECONDS):
            reader, writer = await asyncio.open_connection(parts.hostname, parts.port or 80, limit=ANSWER_BYTES)
            try:
                writer.write(f"GET {path} HTTP/1.0\r\nHost: {parts.netloc}\r\n\r\n".encode())
                head, _, body = (await reader.read(ANSWER_BYTES)).partition(b"\r\n\r\n")
            finally:
                writer.close()
        found = orjson.loads(body)
        return MonitorPage(int(head.split(b" ", 2)[1]), found if isinstance(found, dict) else {})
    except (TimeoutError, ValueError, IndexError, EOFError) as error:
        raise OSError(f"{url}{path} answers no JSON: {error!r}") from error


async def write_error(url: str) -> str | None:
    """What keeps a stream from storing, as the server says it."""
    page = await get(url, "/healthz")
    found = str(page.body.get("error", ""))
    return found if page.status != 200 and WRITE_ERROR in found else None


class ServerMonitor:
    """Asks again and again, from `start` to `stop`."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._loop = Loop("nats-monitor", self._keep_asking)
        self._sync: str | None = None
        self._trouble: str | None = None

    def start(self) -> None:
        self._loop.start()

    async def stop(self) -> None:
        await self._loop.stop()

    def status(self) -> dict[str, Any]:
        """`sync`: how often stored messages are synced to the disk, `always` before each acknowledgement."""
        trouble = self._trouble or self._loop.trouble
        found: dict[str, Any] = {"sync": self._sync}
        return found | {"trouble": trouble} if trouble else found

    async def _keep_asking(self) -> None:
        while not self._loop.stopping.is_set():
            try:
                await self._ask()
            except OSError:
                # A server that is away shows on the connection.
                self._sync, self._trouble = None, None
            with suppress(TimeoutError):
                await asyncio.wait_for(self._loop.stopping.wait(), LOOK_SECONDS)

    async def _ask(self) -> None:
        error = await write_error(self._url)
        self._trouble = f"restart the nats-server once its disk has room: {error}" if error else None
        config = (await get(self._url, "/varz")).body.get("jetstream", {}).get("config", {})
        sync = "always" if config.get("sync_always") else None
        if sync is None and "sync_interval" in config:
            sync = f"{config['sync_interval'] / NANOSECONDS:g}s"
        if sync not in (None, "always", self._sync):
            log.warning("a power cut may take what the nats-server acknowledged in that time", sync_interval=sync)
        self._sync = sync
