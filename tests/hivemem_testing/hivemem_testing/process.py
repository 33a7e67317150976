"""A server as a child process that can be killed, paused and restarted on the same data."""

import atexit
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

from hivemem_testing.contract import Address, Origin
from hivemem_testing.ports import LOOPBACK
from hivemem_testing.readiness import accepts
from hivemem_testing.spawning import spawn

START_TIMEOUT_SECONDS = 30.0
STOP_TIMEOUT_SECONDS = 10.0
POLL_SECONDS = 0.02
LOG_LINES_SHOWN = 15


class ServerFailedError(Exception):
    """The server's process ended, or was not ready in time; the text ends with the last lines of its log."""


@dataclass(frozen=True)
class Program:
    name: str
    version: str
    command: tuple[str, ...]
    port: int
    ready: Callable[[], bool]
    """Returns whether the server can be used now; it is called until it returns True."""
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    stop_seconds: float = STOP_TIMEOUT_SECONDS
    """The time limit of an orderly end."""


class ProcessServer:
    """A server that keeps its port and `directory` over restarts. As a context manager it stops itself."""

    def __init__(self, program: Program, address: Address, directory: Path) -> None:
        self.name = program.name
        self.origin: Origin = "packages"
        self.detail = program.version
        self.address = address
        self.log = directory / f"{program.name}.log"
        self._program = program
        self._directory = directory
        self._process: subprocess.Popen[bytes] | None = None
        atexit.register(self.stop)

    @property
    def url(self) -> str:
        return self.address.url

    @property
    def port(self) -> int:
        return self._program.port

    @property
    def pid(self) -> int:
        return self._running().pid

    def start(self) -> None:
        if self._process is not None and self._process.poll() is None:
            return
        # Another process on the port would otherwise pass for the new server.
        if accepts(LOOPBACK, self._program.port):
            raise ServerFailedError(f"{self.name}: something else listens on port {self._program.port}")
        # The server gets PATH alone, since a stray variable must not change the server under test.
        environment = {"PATH": os.environ.get("PATH", os.defpath), "HOME": str(self._directory)}
        self._process = spawn(
            self._program.command,
            directory=self._directory,
            environment=environment | dict(self._program.environment),
            log=self.log,
        )
        try:
            self._wait_until_ready(self._process)
        except BaseException:
            self.kill()
            raise

    def stop(self) -> None:
        """End the process in an orderly way, or by SIGKILL if it does not react."""
        process = self._process
        if process is not None and process.poll() is None:
            process.terminate()
            process.send_signal(signal.SIGCONT)
            try:
                process.wait(self._program.stop_seconds)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._process = None

    def kill(self) -> None:
        """Send SIGKILL, and wait until the process is gone. The data stays as it is."""
        process = self._running()
        process.kill()
        process.wait()
        self._process = None

    def restart(self) -> None:
        """Start again on the same port and data; a running process is stopped first."""
        self.stop()
        self.start()

    def pause(self) -> None:
        """Send SIGSTOP: connections stay open, and nothing answers."""
        process = self._running()
        process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, process.pid, os.WSTOPPED)

    def resume(self) -> None:
        self._running().send_signal(signal.SIGCONT)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            raise ServerFailedError(f"{self.name} is not running")
        return self._process

    def _wait_until_ready(self, process: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + START_TIMEOUT_SECONDS
        while not self._program.ready():
            if (code := process.poll()) is not None:
                raise self._failed(f"ended with code {code} while starting")
            if time.monotonic() > deadline:
                raise self._failed(f"was not ready after {START_TIMEOUT_SECONDS:.0f} s")
            time.sleep(POLL_SECONDS)

    def _failed(self, what: str) -> ServerFailedError:
        lines = self.log.read_text(errors="replace").splitlines()[-LOG_LINES_SHOWN:]
        return ServerFailedError("\n".join([f"{self.name} {what}: {self.log}", *lines]))
