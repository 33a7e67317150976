"""Peers that carry and store the same bytes without Hivemem."""

import asyncio
import os
import shutil
import time
from pathlib import Path
from typing import Final

import minio
from nats.aio.msg import Msg

from hivemem_contracts.limits import ARTIFACT_CHUNK_BYTES, ARTIFACT_CHUNK_WINDOW
from hivemem_runtime.bus.connection import connect
from hivemem_runtime.bus.subscriptions import subscribe
from hivemem_testing.process import ProcessServer

SUBJECT: Final = "bare.chunks"
TIMEOUT_SECONDS: Final = 60.0
BUCKET: Final = "bare"


async def publish_chunks(url: str, file: Path) -> float:
    """Return the seconds until another connection has a whole file, in acknowledged chunks, not stored or hashed."""
    sender, receiver = await connect(url, "bare sender"), await connect(url, "bare receiver")

    async def acknowledge(message: Msg) -> None:
        await message.respond(b"")

    await subscribe(receiver, SUBJECT, acknowledge, unlimited=True)
    await receiver.flush()
    free = asyncio.Semaphore(ARTIFACT_CHUNK_WINDOW)

    async def send(chunk: bytes) -> None:
        try:
            await sender.request(SUBJECT, chunk, TIMEOUT_SECONDS)
        finally:
            free.release()

    started = time.perf_counter()
    under_way: set[asyncio.Task[None]] = set()
    with file.open("rb") as opened:
        while chunk := opened.read(ARTIFACT_CHUNK_BYTES):
            await free.acquire()
            task = asyncio.create_task(send(chunk))
            under_way.add(task)
            task.add_done_callback(under_way.discard)
    await asyncio.gather(*under_way)
    seconds = time.perf_counter() - started
    await sender.close()
    await receiver.close()
    return seconds


def copy(file: Path, to: Path) -> float:
    """Return the seconds until a copy is on the disk."""
    started = time.perf_counter()
    with file.open("rb") as source, to.open("wb") as target:
        shutil.copyfileobj(source, target, 1024 * 1024)
        target.flush()
        os.fsync(target.fileno())
    seconds = time.perf_counter() - started
    to.unlink()
    return seconds


class BareMinio:
    """The client of the object store, with its defaults."""

    def __init__(self, server: ProcessServer) -> None:
        address = server.url.removeprefix("http://")
        self._client = minio.Minio(
            address, access_key=server.address.access_key, secret_key=server.address.secret_key, secure=False
        )
        if not self._client.bucket_exists(BUCKET):
            self._client.make_bucket(BUCKET)

    def up(self, file: Path) -> float:
        started = time.perf_counter()
        self._client.fput_object(BUCKET, file.name, str(file))
        return time.perf_counter() - started

    def down(self, name: str, to: Path) -> float:
        started = time.perf_counter()
        self._client.fget_object(BUCKET, name, str(to))
        seconds = time.perf_counter() - started
        to.unlink()
        return seconds
