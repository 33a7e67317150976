"""Reports whether the compose file can be brought up here. As a program it exits 1 and prints the reason in one line.

It imports only the standard library, so that it can run before anything is installed.
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
    """Return the obstacle, or None. Missing images are pulled, within a bounded time."""
    if shutil.which("docker") is None:
        return "this machine has no docker command"
    if not _succeeds(ENGINE_TIMEOUT_SECONDS, "version", "--format", "{{.Server.Version}}"):
        return "no docker engine answers"
    if not _succeeds(ENGINE_TIMEOUT_SECONDS, "compose", "version"):
        return "docker has no compose command"
    for image in _images():
        # Stop at the first image that cannot be pulled: each could take as long to fail.
        if not _succeeds(ENGINE_TIMEOUT_SECONDS, "image", "inspect", image) and not _succeeds(
            PULL_TIMEOUT_SECONDS, "pull", "--quiet", image
        ):
            return f"the image {image} is not on this machine and could not be pulled"
    return None


def _images() -> list[str]:
    """Return the images that the compose file uses, and the base images of our own."""
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
