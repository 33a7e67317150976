"""Hivemem as in production: real servers, and the worker in a process of its own."""

import functools
import os
import subprocess
import sys
import sysconfig
import time
from collections.abc import Generator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final, Literal

from hivemem_testing.contract import Address
from hivemem_testing.ports import LOOPBACK, free_port
from hivemem_testing.process import ProcessServer, Program
from hivemem_testing.readiness import http_answers
from hivemem_testing.servers import packaged_mongo, packaged_nats

Store = Literal["sqlite", "mongo"]

STOP_SECONDS: Final = 20.0


@dataclass(frozen=True)
class Fleet:
    """One nats-server, one store and one worker process; further workers can share its settings."""

    store: Store
    nats: ProcessServer
    mongo: ProcessServer | None
    worker: ProcessServer
    settings: Mapping[str, str]

    @property
    def url(self) -> str:
        return self.nats.url

    @property
    def servers(self) -> dict[str, str]:
        """Return the versions of the software, by name."""
        return {server.name: server.detail for server in (self.nats, self.mongo) if server is not None}


@contextmanager
def running_fleet(
    directory: Path,
    store: Store,
    service: str,
    more: Mapping[str, str] | None = None,
    *,
    sync_interval: str | None = None,
) -> Generator[Fleet]:
    """`sync_interval` is how often the nats-server syncs its files; None for its own two minutes."""
    with ExitStack() as stack:
        nats = stack.enter_context(packaged_nats(directory / "nats", sync_interval=sync_interval))
        mongo = stack.enter_context(packaged_mongo(directory / "mongo")) if store == "mongo" else None
        settings = {
            "HIVEMEM_NATS_URL": nats.url,
            "HIVEMEM_STORE": store,
            "HIVEMEM_DATA": str(directory / "data"),
            "HIVEMEM_LOG_LEVEL": "warning",
            **(more or {}),
            **({"HIVEMEM_MONGO_URL": mongo.url} if mongo else {}),
        }
        worker = stack.enter_context(worker_process(directory / "worker", service, settings))
        yield Fleet(store, nats, mongo, worker, settings)


def worker_process(directory: Path, service: str, settings: Mapping[str, str]) -> ProcessServer:
    directory.mkdir(parents=True)
    port = free_port()
    program = Program(
        name="worker",
        version="",
        command=(sys.executable, "-m", f"hivemem_{service}"),
        port=port,
        ready=functools.partial(http_answers, LOOPBACK, port, "/readyz"),
        environment={**settings, "HIVEMEM_HTTP_PORT": str(port)},
    )
    return ProcessServer(program, Address(f"http://{LOOPBACK}:{port}"), directory)


class Embedded:
    """`hivemem up` on a folder; `seconds` is the time from its start to its ready line."""

    def __init__(self, data: Path) -> None:
        command = [str(Path(sysconfig.get_path("scripts")) / "hivemem"), "up", "--nats-port", "0", "--http-port", "0"]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("HIVEMEM_")}
        started = time.perf_counter()
        self._process = subprocess.Popen(
            [*command, "--data", str(data)], stdout=subprocess.PIPE, text=True, env=environment
        )
        line = self._output.readline()
        self.seconds = time.perf_counter() - started
        if not line.startswith("ready "):
            self.stop()
            raise RuntimeError(f"hivemem up did not start: {line!r}")
        self.url = dict(part.split("=", 1) for part in line.split()[1:])["nats"]

    @property
    def _output(self) -> IO[str]:
        assert self._process.stdout is not None
        return self._process.stdout

    def stop(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._output.close()


@contextmanager
def running_embedded(data: Path) -> Generator[Embedded]:
    embedded = Embedded(data)
    try:
        yield embedded
    finally:
        embedded.stop()
