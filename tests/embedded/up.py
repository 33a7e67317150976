"""`hivemem up` as a user starts it: the installed command, in a process of its own."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from hivemem_testing.spawning import LAUNCHER

COMMAND: Final = Path(sys.executable).with_name("hivemem")
READY_SECONDS: Final = 60.0
EXIT_SECONDS: Final = 60.0
_POLL_SECONDS: Final = 0.01
_READY: Final = re.compile(r"ready nats=(nats://127\.0\.0\.1:\d+) http=(http://127\.0\.0\.1:\d+) data=(.+)\n")


class Up:
    """Its output goes to files, so that a test can read at any time what a person would have seen."""

    def __init__(
        self,
        directory: Path,
        data: Path,
        *options: str,
        nats_port: int = 0,
        http_port: int = 0,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        """Prepare the command. `settings` are its only variables of Hivemem in the environment."""
        directory.mkdir(parents=True, exist_ok=True)
        self.data = data
        self._stdout = directory / "stdout"
        self._stderr = directory / "stderr"
        command = [str(COMMAND), "up", "--data", str(data)]
        command += ["--nats-port", str(nats_port), "--http-port", str(http_port), *options]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("HIVEMEM_")}
        with self._stdout.open("wb") as out, self._stderr.open("wb") as err:
            self.process = subprocess.Popen(
                [sys.executable, "-I", "-S", str(LAUNCHER), str(os.getpid()), *command],
                cwd=directory,
                env={**environment, **(settings or {})},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                start_new_session=True,
                umask=0,
            )

    @property
    def stdout(self) -> str:
        return self._stdout.read_text()

    @property
    def stderr(self) -> str:
        return self._stderr.read_text()

    def ready(self) -> "Up":
        """Wait for the ready line, after which `nats` and `http` are known."""
        eventually(lambda: "\n" in self.stdout or self.process.poll() is not None, "a first line", READY_SECONDS)
        found = _READY.fullmatch(self.stdout)
        assert found is not None, f"no ready line but {self.stdout!r}, and on stderr {self.stderr}"
        self.nats, self.http, shown = found.groups()
        assert Path(shown) == self.data
        return self

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.wait()

    def wait(self) -> int:
        return self.process.wait(EXIT_SECONDS)

    def kill(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def nats_pid(self) -> int:
        """Return the process id of the nats-server, or 0 before it is written."""
        return int((self.data / "nats" / "pid").read_text() or 0)


def port_of(url: str) -> int:
    return int(url.rpartition(":")[2])


def lives(pid: int) -> bool:
    """Return whether a process runs; a zombie does not."""
    with suppress(OSError):
        return (Path("/proc") / str(pid) / "stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


def processor_seconds(pid: int) -> float:
    """Return the processor time that a process has used since it began."""
    user, system = (Path("/proc") / str(pid) / "stat").read_text().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def eventually(holds: Callable[[], bool], what: str, seconds: float = EXIT_SECONDS) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, f"never within {seconds} s: {what}"
        time.sleep(_POLL_SECONDS)
