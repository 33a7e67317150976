"""A compose project for the tests alone, driven by the docker command as any user does."""

import json
import os
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

from hivemem_testing.ports import free_port

ROOT = Path(__file__).resolve().parents[2]
COMMAND_TIMEOUT_SECONDS = 120.0
BUILD_TIMEOUT_SECONDS = 900.0
LOG_LINES_SHOWN = 60
WORKERS = tuple(sorted(project.parent.name for project in ROOT.glob("services/*/pyproject.toml")))
INSTALLED = "import importlib.metadata as m, json; print(json.dumps({d.name: d.version for d in m.distributions()}))"
STATUS = "import urllib.request as u; print(u.urlopen('http://127.0.0.1:8222/status', timeout=5).read().decode())"


class CommandFailed(Exception):
    """A docker command failed; the text is its output."""


class Project:
    def __init__(self) -> None:
        self.name = f"hivemem-test-{uuid4().hex[:8]}"
        self.nats_port = free_port()

    @property
    def nats_url(self) -> str:
        return f"nats://127.0.0.1:{self.nats_port}"

    def compose(self, *arguments: str, timeout_seconds: float = COMMAND_TIMEOUT_SECONDS) -> str:
        return self._run(["compose", "--project-name", self.name, *arguments], timeout_seconds)

    def docker(self, *arguments: str) -> str:
        return self._run(list(arguments), COMMAND_TIMEOUT_SECONDS)

    def build(self) -> float:
        started = time.monotonic()
        self.compose("build", timeout_seconds=BUILD_TIMEOUT_SECONDS)
        return time.monotonic() - started

    def up(self, **replicas: int) -> float:
        """Start the project; return the seconds until it was healthy. Each worker that is not named has one replica."""
        started = time.monotonic()
        scales = [option for name, count in replicas.items() for option in ("--scale", f"{name}={count}")]
        self.compose("up", "--detach", "--no-build", "--no-recreate", "--wait", *scales)
        return time.monotonic() - started

    def down(self, *, volumes: bool) -> None:
        command = ["down", "--timeout", "60", "--remove-orphans", *(["--volumes"] if volumes else [])]
        try:
            self.compose(*command)
        except CommandFailed as error:
            # Older engines release the network of a killed container a moment too late.
            if "active endpoints" not in str(error):
                raise
            self.compose(*command)

    def containers(self, service: str | None = None) -> list[str]:
        """Return the ids of the running containers."""
        named = [service] if service else []
        return self.compose("ps", "--quiet", "--status", "running", *named).split()

    def inspect(self, containers: Sequence[str]) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(self.docker("inspect", *containers))
        return found

    def status(self, container: str) -> dict[str, Any]:
        """Return the status that a sessions worker reports."""
        answer = json.loads(self.docker("exec", container, "python", "-c", STATUS))
        status: dict[str, Any] = answer["workers"]["sessions"]
        return status

    def installed(self, container: str) -> dict[str, str]:
        """Return the Python distributions in a worker's image, with their versions."""
        found: dict[str, str] = json.loads(self.docker("exec", container, "python", "-c", INSTALLED))
        return found

    def logs(self) -> str:
        """Return the last log lines of the workers and the bus."""
        return self.compose("logs", "--no-color", "--tail", str(LOG_LINES_SHOWN), *WORKERS, "nats")

    def _run(self, arguments: list[str], timeout_seconds: float) -> str:
        # A developer may have set these variables for a fleet of their own.
        environment = {
            name: value for name, value in os.environ.items() if not name.startswith(("HIVEMEM_", "COMPOSE_"))
        }
        environment["HIVEMEM_NATS_PORT"] = str(self.nats_port)
        done = subprocess.run(
            ["docker", *arguments],
            cwd=ROOT,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout_seconds,
            check=False,
        )
        if done.returncode != 0:
            raise CommandFailed(f"docker {' '.join(arguments)}\n{done.stdout}{done.stderr}")
        return done.stdout
