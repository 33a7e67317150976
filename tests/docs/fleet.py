"""The fleet for the examples of the pages: `hivemem up` on ports of its own."""

import os
import re
import subprocess
import sys
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from hivemem_testing.spawning import spawn

BIN: Final = Path(sys.executable).parent
WRITTEN_URL: Final = "nats://127.0.0.1:4222"
WRITTEN_HTTP: Final = "http://127.0.0.1:8222"
READY_SECONDS: Final = 30.0
STOP_SECONDS: Final = 15.0
_POLL_SECONDS: Final = 0.02
_READY: Final = re.compile(r"^ready nats=(\S+) http=(\S+) data=(.+)$", re.MULTILINE)


@dataclass(frozen=True)
class Fleet:
    url: str
    http: str
    ready_line: str

    def here(self, text: str) -> str:
        """Replace the default addresses in a text with the addresses of this fleet."""
        return text.replace(WRITTEN_URL, self.url).replace(WRITTEN_HTTP, self.http)

    def as_written(self, text: str) -> str:
        """Replace the addresses of this fleet in a text with the default ones."""
        return text.replace(self.url, WRITTEN_URL).replace(self.http, WRITTEN_HTTP)

    def environment(self) -> Mapping[str, str]:
        """Return the environment of a program that uses this fleet and prints for a terminal of 80 columns."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("HIVEMEM_")}
        path = f"{BIN}{os.pathsep}{kept.get('PATH', os.defpath)}"
        screen = {"COLUMNS": "80", "LINES": "50", "NO_COLOR": "1", "TERM": "xterm", "TZ": "UTC"}
        return {**kept, **screen, "PATH": path, "HIVEMEM_URL": self.url}


@contextmanager
def running_fleet(directory: Path, environment: Mapping[str, str] | None = None) -> Generator[Fleet]:
    """Run `hivemem up` in a folder, by default in the environment of the tests without its settings."""
    log = directory / "up.log"
    if environment is None:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("HIVEMEM_")}
    command = [str(BIN / "hivemem"), "up", "--nats-port", "0", "--http-port", "0"]
    process = spawn(command, directory=directory, environment=environment, log=log)
    try:
        found = _wait_until_ready(process, log)
        yield Fleet(found[1], found[2], found[0])
    finally:
        process.terminate()
        try:
            process.wait(STOP_SECONDS)
        finally:
            process.kill()
            process.wait()


def _wait_until_ready(process: subprocess.Popen[bytes], log: Path) -> re.Match[str]:
    deadline = time.monotonic() + READY_SECONDS
    while (found := _READY.search(log.read_text(errors="replace"))) is None:
        late = process.poll() is not None or time.monotonic() > deadline
        assert not late, f"no fleet: {log.read_text(errors='replace')}"
        time.sleep(_POLL_SECONDS)
    return found
