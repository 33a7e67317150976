"""The fleet that is killed: its servers and its workers, each a process of its own."""

import functools
import os
import sys
import urllib.request
from collections.abc import Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from hivemem_testing.contract import Address
from hivemem_testing.ports import LOOPBACK, free_port
from hivemem_testing.process import ProcessServer, Program
from hivemem_testing.readiness import http_answers
from hivemem_testing.servers import packaged_mongo, packaged_nats

Store = Literal["sqlite", "mongo", "embedded"]
Command = tuple[str, ...]

DUPLICATE_WINDOW_SECONDS = 1
"""So short that nothing here can rest on it: most outages are longer."""


@dataclass(frozen=True)
class Fleet:
    nats_url: str
    servers: tuple[ProcessServer, ...]
    workers: tuple[ProcessServer, ...]


def worker_command(module: str) -> Command:
    return sys.executable, "-m", module


@contextmanager
def running_fleet(
    directory: Path, store: Store, workers: Sequence[Command], settings: Mapping[str, str] | None = None
) -> Generator[Fleet]:
    """A worker for each command; `hivemem up`, which is all of them in one, is "embedded" and takes none."""
    shared = {"HIVEMEM_STREAMS__DUPLICATE_WINDOW_SECONDS": str(DUPLICATE_WINDOW_SECONDS), **(settings or {})}
    with ExitStack() as stack:
        if store == "embedded":
            nats_port = free_port()
            up = stack.enter_context(whole_fleet(directory / "up", nats_port, shared))
            yield Fleet(f"nats://{LOOPBACK}:{nats_port}", (), (up,))
            return
        nats = stack.enter_context(packaged_nats(directory / "nats"))
        servers = [nats]
        shared |= {"HIVEMEM_NATS_URL": nats.url, "HIVEMEM_STORE": store, "HIVEMEM_DATA": str(directory / "data")}
        if store == "mongo":
            mongo = stack.enter_context(packaged_mongo(directory / "mongo"))
            servers.append(mongo)
            shared["HIVEMEM_MONGO_URL"] = mongo.url
        started = [
            stack.enter_context(one_worker(directory / f"worker{number}", command, shared))
            for number, command in enumerate(workers)
        ]
        yield Fleet(nats.url, tuple(servers), tuple(started))


def one_worker(directory: Path, command: Command, settings: Mapping[str, str]) -> ProcessServer:
    """`start` returns as soon as it lives, so that it may be killed while it is still getting ready."""
    port = free_port()
    return _process(directory, command, port, {**settings, "HIVEMEM_HTTP_PORT": str(port)})


def whole_fleet(directory: Path, nats_port: int, settings: Mapping[str, str]) -> ProcessServer:
    """`hivemem up`: the nats-server dies with it."""
    port = free_port()
    command = (str(Path(sys.executable).with_name("hivemem")), "up", "--data", str(directory / "data"))
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
    with urllib.request.urlopen(f"{worker.url}/status", timeout=5) as answer:  # an address of our own
        return str(answer.read().decode())


def ended_by_itself(server: ProcessServer) -> bool:
    return os.waitid(os.P_PID, server.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
