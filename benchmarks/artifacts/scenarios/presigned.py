"""Transfers directly to the object store by a worker's URL, next to the store's own client."""

import asyncio
import time
import urllib.request
from collections import defaultdict
from pathlib import Path

import hivemem
from benchmarks.artifacts.bare import BareMinio
from benchmarks.artifacts.lab import Lab
from benchmarks.turns import fresh
from hivemem import presigned

MEGABYTE = 1_000_000
BLOCK = 1024 * 1024
NAME = "presigned.bin"


async def run(lab: Lab) -> None:
    """Run only with an object store."""
    if lab.minio is None:
        return
    hive, bare, size = lab.hivemem["mongo"], BareMinio(lab.minio), lab.sizes.presigned_bytes
    seconds: dict[tuple[str, str], list[float]] = defaultdict(list)
    for _ in range(lab.sizes.rounds + 2):
        file = await lab.file("presigned", size)
        fetched = lab.directory / "fetched"
        up, committed, down = await _through(hive, file, size, fetched)
        seconds["presigned up", "mongo"].append(up)
        seconds["presigned up, committed", "mongo"].append(committed)
        seconds["presigned down", "mongo"].append(down)
        seconds["presigned up", "minio"].append(await asyncio.to_thread(bare.up, file))
        seconds["presigned down", "minio"].append(await asyncio.to_thread(bare.down, file.name, fetched))
        file.unlink()
    for (measure, name), taken in seconds.items():
        lab.results.add(measure, name, "MB/s", [size / MEGABYTE / one for one in taken])


async def _through(hive: hivemem.Hive, file: Path, size: int, fetched: Path) -> tuple[float, float, float]:
    """Return the seconds of the upload alone, of the upload with its commit, and of the download."""
    session = fresh("presigned")
    started = time.perf_counter()
    upload = await hive.artifacts.begin(session_id=session, name=NAME, size=size, presigned=True)
    assert upload.put_url is not None, "the store is one"
    with file.open("rb") as opened:
        began = time.perf_counter()
        digest = await asyncio.to_thread(presigned.put, upload.put_url, opened, size)
        up = time.perf_counter() - began
    await hive.artifacts.commit(upload_id=upload.upload_id, sha256=digest)
    committed = time.perf_counter() - started
    content = await hive.artifacts.get(session_id=session, name=NAME, presigned=True)
    assert content.get_url is not None, "the store is one"
    return up, committed, await asyncio.to_thread(_fetch, content.get_url, fetched)


def _fetch(url: str, to: Path) -> float:
    started = time.perf_counter()
    with urllib.request.urlopen(url) as answer, to.open("wb") as file:  # noqa: S310  # the worker's own
        while block := answer.read(BLOCK):
            file.write(block)
    seconds = time.perf_counter() - started
    to.unlink()
    return seconds
