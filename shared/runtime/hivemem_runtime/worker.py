"""A worker: its connection, its ledger and its ways in, started in order and stopped in the opposite one."""

import asyncio
import math
import os
import signal
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

import nats.errors
import structlog
from nats.aio.client import Client

from hivemem_contracts.errors import HiveError, Unavailable
from hivemem_runtime import logs, loop
from hivemem_runtime.background import Background
from hivemem_runtime.backoff import Backoff
from hivemem_runtime.bus import connection
from hivemem_runtime.bus.commands.execution import Commands
from hivemem_runtime.bus.commands.partitions import Partitions
from hivemem_runtime.bus.commands.stray_commands import StrayCommands
from hivemem_runtime.bus.connection import ServerTooOld
from hivemem_runtime.bus.dead_letters import DeadLetters
from hivemem_runtime.bus.delivery import ignored
from hivemem_runtime.bus.feed.announcer import Announcer
from hivemem_runtime.bus.jetstream import JetStreamRefused
from hivemem_runtime.bus.reactions.consumers import Reactions
from hivemem_runtime.bus.reactions.runner import Reaction
from hivemem_runtime.bus.requests.intake import Requests
from hivemem_runtime.bus.streams import StreamConflict, declare
from hivemem_runtime.clock import elapsed_seconds
from hivemem_runtime.distribution import version_of
from hivemem_runtime.health import HealthServer
from hivemem_runtime.ledger.port import Ledger
from hivemem_runtime.ledger.refusals import BrokenStore, DataTooNew, UnfitServer
from hivemem_runtime.loops import Loop, foreign_cancellation
from hivemem_runtime.server_monitor import ServerMonitor
from hivemem_runtime.service import Service
from hivemem_runtime.settings import PREFIX, SettingsError, WorkerSettings

log = structlog.get_logger("hivemem.worker")

PROBE_SECONDS: Final = 2.0
"""How long a probe waits for the store and for JetStream; a store that takes longer is in trouble."""
OVERDUE_SHARE: Final = 0.9
WATCH_SECONDS: Final = 2.0
"""Between two looks at the store, whoever asks for health."""
FIRST_START_RETRY_SECONDS: Final = 0.2
LONGEST_START_RETRY_SECONDS: Final = 5.0
NOT_OTHERS: Final = 0o077
"""The umask of every program that keeps data: its owner alone may read its files and enter its folders."""


@dataclass(frozen=True, slots=True)
class Parts:
    """What a worker is made of, apart from the bus: wired by the `worker.py` of its service."""

    service: Service
    ledger: Ledger
    announcer: Announcer
    """Of the ledger; here because some operations need it too."""
    reactions: Sequence[Reaction] = field(default=())
    background: Sequence[Background] = field(default=())
    """A worker is not ready while one of them is in trouble."""
    leaving: "Sequence[Callable[[], None]]" = field(default=())
    """Called first when the worker stops, by parts that keep requests waiting: they release them now."""
    closing: "Sequence[Callable[[], Awaitable[None]]]" = field(default=())
    """Awaited last when the worker is stopped, but not after a failed start, which may be retried: they close what is
    opened only once."""


class Worker:
    """One service on one connection. `start` returns when it takes requests."""

    def __init__(self, settings: WorkerSettings, parts: Parts) -> None:
        self._settings = settings
        self._parts = parts
        self._stops: list[tuple[str, Callable[[], Awaitable[None]]]] = []
        self._client: Client | None = None
        self._reactions_client: Client | None = None
        self._probes: dict[str, Callable[[], dict[str, Any]]] = {}
        self._partitions: Partitions | None = None
        self._started = False
        self._watch = Loop(f"{parts.service.contract.name}-watch", self._keep_watching)
        self._checking: asyncio.Task[None] | None = None
        self._checked_at = 0.0
        self._store_trouble: str | None = None
        unbound = parts.service.unbound()
        if unbound:
            raise RuntimeError(f"service {self.name} does nothing for {unbound}")

    @property
    def name(self) -> str:
        return self._parts.service.contract.name

    async def start(self) -> None:
        """Raises what keeps it from starting, `Unavailable` where that may pass; what had been started is stopped."""
        try:
            await self._start()
        except BaseException as error:
            await self._stop()
            if isinstance(error, nats.errors.Error | JetStreamRefused) or foreign_cancellation(error):
                raise Unavailable(f"the bus failed while starting: {error!r}", retry_after_ms=1000) from error
            raise
        self._started = True
        self._watch.start()
        log.info("worker started", service=self.name)

    async def _start(self) -> None:
        settings, parts = self._settings, self._parts
        client = await connection.connect(settings.nats_url, f"hivemem-{self.name}")
        self._client = client
        self._stops.append(("connection", client.close))
        await declare(client, settings.streams)
        if settings.nats_monitor_url:
            monitor = ServerMonitor(settings.nats_monitor_url)
            monitor.start()
            self._stops.append(("monitor", monitor.stop))
            self._probes["server"] = monitor.status
        await parts.ledger.open()
        self._stops.append(("ledger", parts.ledger.close))
        self._parts.announcer.start(client, settings.streams)
        self._stops.append(("announcer", self._parts.announcer.stop))
        self._probes["announcer"] = self._parts.announcer.status
        await self._parts.announcer.checked()
        for task in parts.background:
            await task.start(client)
            self._stops.append(("background", task.stop))
        await self._start_reactions()
        await self._start_commands(client)
        await self._start_requests(client)

    async def _start_reactions(self) -> None:
        if not self._parts.reactions:
            return
        reactions = Reactions(self._settings.nats_url, service=self.name, rely=self._parts.announcer.rely)
        for reaction in self._parts.reactions:
            reactions.add(reaction)
        self._reactions_client = await reactions.start()
        self._stops.append(("reactions", reactions.stop))
        self._probes["reactions"] = reactions.status

    async def _start_commands(self, client: Client) -> None:
        dead = DeadLetters(client)
        commands = Commands(self._parts.service, dead)
        partitions = Partitions(client, self.name, commands.handle, partitions=self._settings.streams.partitions)
        await partitions.start()
        self._partitions = partitions
        self._probes["commands"] = partitions.health
        self._stops.append(("commands", partitions.stop))
        strays = StrayCommands(client, dead)
        strays.start()
        self._stops.append(("stray commands", strays.stop))
        self._probes["stray commands"] = strays.status

    async def _start_requests(self, client: Client) -> None:
        requests = Requests(
            client,
            self._parts.service,
            version=version_of(self.name),
            health=self._health,
            beside=[endpoint for part in self._parts.background for endpoint in part.endpoints],
            under_way=self._settings.requests_under_way,
            bytes_under_way=self._settings.request_bytes_under_way,
        )
        await requests.start()
        self._stops.append(("requests", requests.stop))
        self._probes["requests"] = requests.status

    async def stop(self) -> None:
        """Take nothing new, finish what was taken, announce it, let go."""
        self._stops[:0] = [("closing", close) for close in self._parts.closing]
        await self._stop()

    async def _stop(self) -> None:
        self._started = False
        await self._watch.stop()
        if self._checking is not None:
            self._checking.cancel()
        for leave in self._parts.leaving:
            leave()
        while self._stops:
            name, stop = self._stops.pop()
            try:
                await stop()
            except (Exception, asyncio.CancelledError) as error:
                if isinstance(error, asyncio.CancelledError) and not foreign_cancellation(error):
                    raise
                log.warning("part did not stop cleanly", part=name, service=self.name, exc_info=True)
        log.info("worker stopped", service=self.name)

    def _health(self) -> dict[str, Any]:
        """Return the health that is known without I/O, for `$SRV.STATS` too. Ready means that no part has trouble."""
        wrong = self._trouble_of_connection()
        parts = {name: _asked(probe) for name, probe in self._probes.items()}
        troubles = [f"{name}: {part['trouble']}" for name, part in parts.items() if part.get("trouble")]
        if not self._started:
            troubles.append("worker: it has not started, or is stopping")
        if wrong is not None:
            troubles.append(f"connection: {wrong}")
        store = self._trouble_of_store()
        if store is not None:
            troubles.append(f"store: {store}")
        background = [self._watch.trouble, *[part.trouble for part in self._parts.background]]
        troubles += [f"background: {trouble}" for trouble in background if trouble]
        return {
            "ready": not troubles,
            "troubles": troubles,
            "connected": wrong is None,
            "ignored_messages": dict(ignored),
            "store": self._settings.store,
            "store_ready": store is None,
            **parts,
        }

    def _trouble_of_connection(self) -> str | None:
        """Return why a connection does not work, or None if all do."""
        if self._client is None:
            return "not connected"
        wrong = connection.trouble(self._client)
        if wrong is None and self._reactions_client is not None:
            wrong = connection.trouble(self._reactions_client)
        return wrong

    async def probe(self) -> dict[str, Any]:
        """Health with the store and JetStream asked, within `PROBE_SECONDS` whatever hangs."""
        asked: set[asyncio.Task[Any]] = {self._check()}
        status = None
        if self._partitions is not None and self._client is not None and self._client.is_connected:
            status = asyncio.create_task(self._partitions.status())
            asked.add(status)
        await asyncio.wait(asked, timeout=PROBE_SECONDS)
        health = self._health()
        if status is None:
            return health
        if status.done() and status.exception() is None:
            health["commands"] = status.result()
        else:
            status.cancel()
        return health

    async def _keep_watching(self) -> None:
        while not self._watch.stopping.is_set():
            await asyncio.wait({self._check()}, timeout=PROBE_SECONDS)
            with suppress(TimeoutError):
                await asyncio.wait_for(self._watch.stopping.wait(), WATCH_SECONDS)

    def _check(self) -> asyncio.Task[None]:
        """One at a time: a store that hangs is not asked again before it answers."""
        if self._checking is None or self._checking.done():
            self._checked_at = elapsed_seconds()
            self._checking = asyncio.create_task(self._check_store(), name=f"hivemem-{self.name}-check")
        return self._checking

    async def _check_store(self) -> None:
        try:
            await self._parts.ledger.check()
        except Exception as error:
            if not isinstance(error, HiveError):
                log.exception("the store could not be checked", service=self.name)
            self._store_trouble = str(error) or repr(error)
        else:
            self._store_trouble = None

    def _trouble_of_store(self) -> str | None:
        waited = elapsed_seconds() - self._checked_at
        if self._checking is not None and not self._checking.done() and waited >= OVERDUE_SHARE * PROBE_SECONDS:
            return f"a write has not been answered for {waited:.0f} s"
        return self._store_trouble


def _asked(probe: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """A part that cannot tell how it is must not keep the others from it."""
    try:
        return probe()
    except Exception as error:
        log.exception("a part could not be probed")
        return {"trouble": f"it cannot be asked: {error!r}"}


async def serve(settings: WorkerSettings, workers: Sequence[Worker]) -> None:
    """Run workers until SIGTERM or SIGINT, with their health over HTTP."""
    stopped = asyncio.Event()
    running = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        running.add_signal_handler(number, stopped.set)
    health = HealthServer(settings.http_host, settings.http_port, {worker.name: worker.probe for worker in workers})
    try:
        address = await health.start()
    except OSError as error:
        raise SettingsError(
            f"{PREFIX}HTTP_HOST={settings.http_host} {PREFIX}HTTP_PORT={settings.http_port}: {error.strerror or error}"
        ) from error
    log.info("health is served", address=address, pid=os.getpid())
    try:
        for worker in workers:
            await start_with_patience(worker, stopped)
        loop.settle()
        await stopped.wait()
    finally:
        for worker in reversed(workers):
            await worker.stop()
        await health.stop()


async def start_with_patience(worker: Worker, stopped: asyncio.Event, patience_seconds: float = math.inf) -> None:
    """Servers may come up after their workers: what is retryable is tried again until it works or we are stopped.

    Raises what still fails when the patience is over."""
    backoff = Backoff(FIRST_START_RETRY_SECONDS, LONGEST_START_RETRY_SECONDS)
    deadline = elapsed_seconds() + patience_seconds
    while not stopped.is_set():
        try:
            await worker.start()
        except HiveError as error:
            if not error.retryable or elapsed_seconds() >= deadline:
                raise
            wait = backoff.failed()
            log.warning("waiting for a server", service=worker.name, error=str(error), wait_seconds=wait)
            try:
                await asyncio.wait_for(stopped.wait(), wait)
            except TimeoutError:
                continue
        else:
            return


UNFIT: Final = (SettingsError, ServerTooOld, StreamConflict, DataTooNew, BrokenStore, UnfitServer)
"""What keeps a worker from starting until somebody changes something; the text says what."""


def run(settings: WorkerSettings, build: Callable[[], Worker]) -> None:
    """The whole of a worker's `__main__`."""
    logs.configure(settings.log_level, settings.log_format)
    os.umask(NOT_OTHERS)

    async def main() -> None:
        await serve(settings, [build()])

    loop.run(main())
