"""The fleet that is killed: its servers and its workers, each a process of its own."""

import functools
import os
import sys
import urllib.request
from collections.abc import Generator, Mapping
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

DUPLICATE_WINDOW_SECONDS = 1
"""So short that nothing here can rest on it: most outages are longer."""


@dataclass(frozen=True)
class Fleet:
    nats_url: str
    servers: tuple[ProcessServer, ...]
    workers: tuple[ProcessServer, ...]


@contextmanager
def running_fleet(directory: Path, store: Store, workers: int) -> Generator[Fleet]:
    with ExitStack() as stack:
        if store == "embedded":
            nats_port = free_port()
            up = stack.enter_context(whole_fleet(directory / "up", nats_port))
            yield Fleet(f"nats://{LOOPBACK}:{nats_port}", (), (up,))
            return
        nats = stack.enter_context(packaged_nats(directory / "nats"))
        servers = [nats]
        settings = {"HIVEMEM_NATS_URL": nats.url, "HIVEMEM_STORE": store, "HIVEMEM_DATA": str(directory / "data")}
        if store == "mongo":
            mongo = stack.enter_context(packaged_mongo(directory / "mongo"))
            servers.append(mongo)
            settings["HIVEMEM_MONGO_URL"] = mongo.url
        started = [
            stack.enter_context(sessions_worker(directory / f"worker{number}", settings)) for number in range(workers)
        ]
        yield Fleet(nats.url, tuple(servers), tuple(started))


def sessions_worker(directory: Path, settings: Mapping[str, str]) -> ProcessServer:
    """`start` returns as soon as it lives, so that it may be killed while it is still getting ready."""
    port = free_port()
    command = (sys.executable, "-m", "hivemem_sessions")
    return _process(directory, command, port, {**settings, "HIVEMEM_HTTP_PORT": str(port)})


def whole_fleet(directory: Path, nats_port: int) -> ProcessServer:
    """`hivemem up`: the nats-server dies with it."""
    port = free_port()
    command = (str(Path(sys.executable).with_name("hivemem")), "up", "--data", str(directory / "data"))
    return _process(directory, (*command, "--nats-port", str(nats_port), "--http-port", str(port)), port, {})


def _process(directory: Path, command: tuple[str, ...], port: int, environment: Mapping[str, str]) -> ProcessServer:
    directory.mkdir()
    program = Program(
        name=directory.name,
        version="",
        command=command,
        port=port,
        ready=functools.partial(http_answers, LOOPBACK, port, "/healthz"),
        environment={
            "HIVEMEM_ARCHIVE_AFTER_EVENTS": "100",
            "HIVEMEM_STREAMS__DUPLICATE_WINDOW_SECONDS": str(DUPLICATE_WINDOW_SECONDS),
            **environment,
        },
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
