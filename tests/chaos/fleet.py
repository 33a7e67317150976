"""The fleet under test: its servers and workers, each a process of its own."""

import functools
import sys
import time
import urllib.request
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from hivemem_testing.contract import Address
from hivemem_testing.disks import small_disk
from hivemem_testing.ports import LOOPBACK, free_port
from hivemem_testing.process import POLL_SECONDS, ProcessServer, Program
from hivemem_testing.readiness import http_answers

from .servers import Cluster, Need, Servers, Store, start_servers
from .strikes.clocks import Clock
from .strikes.network import Network

Command = tuple[str, ...]
Outside = Callable[[Path], tuple[ProcessServer, Mapping[str, str]]]
"""Starts a server that only one service uses, and returns the settings for it."""

DUPLICATE_WINDOW_SECONDS = 1
"""The window is shorter than most outages, so nothing can rely on it."""
DISK_MEBIBYTES = 192
STREAMS_OF_A_SMALL_DISK = {
    f"HIVEMEM_STREAMS__{stream}_MAX_BYTES": str(mebibytes * 1024 * 1024)
    for stream, mebibytes in (("CHANGES", 64), ("INGEST", 16), ("DEAD", 8))
}
"""The maximum sizes fit the small disk, because a server refuses streams that could outgrow its disk."""
READY_SECONDS = 150.0


@dataclass(frozen=True)
class Fleet:
    nats_url: str
    servers: tuple[ProcessServer, ...]
    workers: tuple[ProcessServer, ...]
    outside: tuple[ProcessServer, ...] = ()
    cluster: Cluster | None = None
    network: Network | None = None
    clocks: Mapping[str, Clock] | None = None
    """The clock of each worker, by the worker's name."""
    disk: Path | None = None


def worker_command(module: str) -> Command:
    return sys.executable, "-m", module


@contextmanager
def running_fleet(
    directory: Path,
    store: Store,
    workers: Sequence[Command],
    settings: Mapping[str, str] | None = None,
    need: Need | None = None,
    outside: Outside | None = None,
) -> Generator[Fleet]:
    """Run one worker per command. For "embedded", which is `hivemem up` with every worker in one process, pass none."""
    shared = {"HIVEMEM_STREAMS__DUPLICATE_WINDOW_SECONDS": str(DUPLICATE_WINDOW_SECONDS), **(settings or {})}
    clocks: dict[str, Clock] = {}

    def clocked(name: str, command: Command) -> Command:
        if need != "clocks":
            return command
        clocks[name] = Clock(directory / f"{name}.clock")
        return clocks[name].of(command)

    with ExitStack() as stack:
        disk = directory / "disk" if need == "disk" else None
        if disk is not None:
            stack.enter_context(small_disk(disk, DISK_MEBIBYTES))
            shared |= STREAMS_OF_A_SMALL_DISK
        if store == "embedded":
            nats_port = free_port()
            data = disk or directory / "up" / "data"
            command = functools.partial(clocked, "up")
            up = stack.enter_context(whole_fleet(directory / "up", data, nats_port, shared, command))
            yield Fleet(f"nats://{LOOPBACK}:{nats_port}", (), (up,), clocks=clocks, disk=disk)
            return
        network = stack.enter_context(Network()) if need == "network" else None
        servers = start_servers(stack, directory, store, network, disk)
        others: tuple[ProcessServer, ...] = ()
        if outside is not None:
            server, more = outside(directory)
            others, shared = (stack.enter_context(server),), shared | dict(more)
        started = [
            _one_worker(directory, f"worker{number}", clocked(f"worker{number}", command), servers, shared)
            for number, command in enumerate(workers)
        ]
        for worker in started:
            servers.named[worker.name] = stack.enter_context(worker)
        if servers.cluster is not None:
            _wait_until_ready(started)
        yield Fleet(
            servers.nats_url, tuple(servers.processes), tuple(started), others, servers.cluster, network, clocks, disk
        )


def _one_worker(
    directory: Path, name: str, command: Command, servers: Servers, settings: Mapping[str, str]
) -> ProcessServer:
    """Build a worker process. Its `start` does not wait until it is ready, so that it may be killed while it gets
    ready."""
    port = free_port()
    own = {**settings, **servers.settings(name), "HIVEMEM_HTTP_PORT": str(port)}
    return _process(directory / name, command, port, own)


def whole_fleet(
    directory: Path, data: Path, nats_port: int, settings: Mapping[str, str], clocked: Callable[[Command], Command]
) -> ProcessServer:
    """Build a `hivemem up` process; its nats-server dies with it."""
    port = free_port()
    command = clocked((str(Path(sys.executable).with_name("hivemem")), "up", "--data", str(data)))
    return _process(directory, (*command, "--nats-port", str(nats_port), "--http-port", str(port)), port, settings)


def _process(directory: Path, command: Command, port: int, settings: Mapping[str, str]) -> ProcessServer:
    directory.mkdir()
    program = Program(
        name=directory.name,
        version="",
        command=command,
        port=port,
        ready=functools.partial(http_answers, LOOPBACK, port, "/healthz"),
        environment=settings,
    )
    return ProcessServer(program, Address(f"http://{LOOPBACK}:{port}"), directory)


def works(worker: ProcessServer) -> bool:
    host, _, port = worker.url.removeprefix("http://").partition(":")
    return http_answers(host, int(port), "/readyz")


def status(worker: ProcessServer) -> str:
    with urllib.request.urlopen(f"{worker.url}/status", timeout=5) as answer:  # a loopback address
        return str(answer.read().decode())


def _wait_until_ready(workers: Sequence[ProcessServer]) -> None:
    """Wait until the fleet works on its cluster: before that there is no load and there are no strikes."""
    until = time.monotonic() + READY_SECONDS
    for worker in workers:
        while not works(worker):
            assert time.monotonic() < until, f"{worker.name} is never ready: {worker.log}"
            time.sleep(POLL_SECONDS)
