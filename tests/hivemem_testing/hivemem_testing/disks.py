"""Small disks that tests fill up."""

import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest


def mount(place: Path, options: str) -> subprocess.CompletedProcess[str]:
    command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(place)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def grow(place: Path, mebibytes: int) -> None:
    assert mount(place, f"remount,size={mebibytes}m").returncode == 0


@contextmanager
def small_disk(place: Path, mebibytes: int) -> Generator[None]:
    """Mount a small disk, or skip the test if nothing may be mounted."""
    place.mkdir()
    mounted = mount(place, f"size={mebibytes}m,mode=700")
    if mounted.returncode:
        pytest.skip(f"no small file system may be mounted here: {mounted.stderr.strip()}")
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)
