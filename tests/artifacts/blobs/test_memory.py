"""Uploads take a bounded amount of memory, however large they are."""

import asyncio
import sys
from pathlib import Path

import pytest

from .backends import Backend

ROOT = Path(__file__).resolve().parents[3]
MOST_BYTES = 48 * 1024 * 1024


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the kernel counts memory in other units")
async def test_an_upload_of_160_megabytes_takes_no_more_than_48_mebibytes(backend: Backend) -> None:
    program = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.artifacts.blobs.measured", *backend.arguments),
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
    )
    said, _ = await program.communicate()
    assert program.returncode == 0
    assert int(said) < MOST_BYTES
