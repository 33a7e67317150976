"""Whether the compose file can be brought up on this machine. As a program: exits 1 and says why not, in one line.

It imports nothing that has to be installed, so that it can be asked before anything is.
"""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ENGINE_TIMEOUT_SECONDS = 20.0
PULL_TIMEOUT_SECONDS = 300.0
BASE_IMAGE = re.compile(r"^FROM\s+(\S+)", re.MULTILINE)


def obstacle() -> str | None:
    """What is in the way; None where nothing is. Images that are missing are pulled, within a bounded time."""
    if shutil.which("docker") is None:
        return "this machine has no docker command"
    if not _succeeds(ENGINE_TIMEOUT_SECONDS, "version", "--format", "{{.Server.Version}}"):
        return "no docker engine answers"
    if not _succeeds(ENGINE_TIMEOUT_SECONDS, "compose", "version"):
        return "docker has no compose command"
    for image in _images():
        # The first one that cannot be pulled tells of the others: each could take as long to fail.
        if not _succeeds(ENGINE_TIMEOUT_SECONDS, "image", "inspect", image) and not _succeeds(
            PULL_TIMEOUT_SECONDS, "pull", "--quiet", image
        ):
            return f"the image {image} is not on this machine and could not be pulled"
    return None


def _images() -> list[str]:
    """What the compose file takes as it is, and what our own images are built on."""
    command = ["docker", "compose", "config", "--format", "json"]
    shown = subprocess.run(
        command, cwd=ROOT, check=True, capture_output=True, text=True, timeout=ENGINE_TIMEOUT_SECONDS
    ).stdout
    services = json.loads(shown)["services"].values()
    taken = {service["image"] for service in services if "build" not in service}
    bases = set(BASE_IMAGE.findall((ROOT / "deploy" / "Dockerfile").read_text(encoding="utf-8")))
    return sorted(taken | bases)


def _succeeds(timeout_seconds: float, *arguments: str) -> bool:
    try:
        done = subprocess.run(
            ["docker", *arguments], cwd=ROOT, capture_output=True, timeout=timeout_seconds, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


if __name__ == "__main__":
    if reason := obstacle():
        sys.stdout.write(f"test-compose: not run, {reason}\n")
        sys.exit(1)
