"""The whole fleet in one process: a nats-server, every worker on SQLite, health over HTTP, all under one folder."""

import asyncio
import errno
import fcntl
import os
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

import structlog

from hivemem_embedded.nats_server import HOST, NatsServer
from hivemem_runtime.health import HealthServer
from hivemem_runtime.program import installed_workers
from hivemem_runtime.settings import load
from hivemem_runtime.worker import Worker, start_with_patience

log = structlog.get_logger("hivemem.fleet")

DEFAULT_NATS_PORT: Final = 4222
DEFAULT_HTTP_PORT: Final = 8222
PATIENCE_SECONDS: Final = 15.0
"""The time limit for the start of a worker. The servers are ours: a longer failure does not recover by itself."""


class FolderInUse(Exception):
    """Another fleet runs on this folder."""


class FolderNotMade(Exception):
    """The folder of the data, or a file in it, cannot be made."""


class PortTaken(Exception):
    """Another process listens on the port; the text gives advice."""


@dataclass(frozen=True, slots=True)
class Addresses:
    nats: str
    http: str
    data: Path

    def line(self) -> str:
        """The line that `hivemem up` prints when it accepts requests; later releases may add parts of the same form."""
        return f"ready nats={self.nats} http={self.http} data={self.data}"


class Fleet:
    """The fleet of one process. Starts its parts in order, and stops them in reverse. Listens on loopback only."""

    def __init__(self, data: Path, nats_port: int = DEFAULT_NATS_PORT, http_port: int = DEFAULT_HTTP_PORT) -> None:
        self._data = data.expanduser().resolve()
        self._http_port = http_port
        self._nats = NatsServer(self._data / "nats", nats_port)
        self._lock: IO[str] | None = None
        self._workers: list[Worker] = []
        self._health: HealthServer | None = None
        self._stopped = asyncio.Event()

    async def start(self) -> Addresses:
        try:
            self._data.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._lock = _take(self._data)
        except OSError as error:
            why = f"{error.filename} cannot be made: {error.strerror}"
            raise FolderNotMade(f"{why}; choose another folder with --data") from error
        await self._nats.start()
        await self._start_workers()
        self._health = HealthServer(HOST, self._http_port, {worker.name: worker.probe for worker in self._workers})
        return Addresses(self._nats.url, await self._serve_health(self._health), self._data)

    async def _start_workers(self) -> None:
        """Start all workers at once, because most of a start is waiting.

        A worker retries for a while, because another one may be recreating the feed. Raises `WorkerNotLoaded`, or the
        error of the first worker that cannot start.
        """
        kinds = installed_workers()
        settings = [kind.settings for kind in kinds]
        given = {
            "nats_url": self._nats.url,
            "nats_monitor_url": self._nats.monitor_url,
            "store": "sqlite",
            "data": self._data,
            "http_port": self._http_port,
        }
        self._workers = [kind.build(load(kind.settings, settings, **given)) for kind in kinds]
        results = await asyncio.gather(*map(self._start_worker, self._workers), return_exceptions=True)
        for error in filter(None, results):
            raise error

    async def _start_worker(self, worker: Worker) -> None:
        try:
            await start_with_patience(worker, self._stopped, PATIENCE_SECONDS)
        except BaseException:
            self._stopped.set()
            raise

    async def _serve_health(self, health: HealthServer) -> str:
        try:
            return await health.start()
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
            raise PortTaken(
                f"port {self._http_port} is taken: choose another with --http-port, or 0 for any free one"
            ) from error

    async def stop(self) -> None:
        self._stopped.set()
        if self._health is not None:
            await self._health.stop()
        while self._workers:
            await self._workers.pop().stop()
        await self._nats.stop()
        if self._lock is not None:
            self._lock.close()


def _take(data: Path) -> IO[str]:
    """The lock of the folder, which the system releases when the process ends, however it ends."""
    lock = (data / "lock").open("a+")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        lock.seek(0)
        owner = lock.read().strip() or "unknown"
        lock.close()
        raise FolderInUse(f"{data} is in use by another fleet (process {owner}): stop it, or choose --data") from error
    lock.truncate(0)
    lock.write(str(os.getpid()))
    lock.flush()
    return lock
