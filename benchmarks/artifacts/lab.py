"""The contenders of the suite, set up once for the whole run, on one disk."""

import asyncio
import os
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import hivemem
from benchmarks.artifacts.sizes import FULL, QUICK, Sizes
from benchmarks.fleets import Fleet, Store, running_fleet
from benchmarks.results import Results
from hivemem_testing.process import ProcessServer
from hivemem_testing.servers import packaged_minio

AGENT: Final = "agent"
TIMEOUT_SECONDS: Final = 120.0
BLOCK: Final = 1024 * 1024


@dataclass(frozen=True)
class Lab:
    """The contenders. `minio` comes with MongoDB: one pair of stores suits a laptop, the other a cluster."""

    directory: Path
    sizes: Sizes
    results: Results
    fleets: dict[Store, Fleet]
    hivemem: dict[Store, hivemem.Hive]
    minio: ProcessServer | None

    async def file(self, name: str, size: int) -> Path:
        """Write a file of new random bytes."""
        path = self.directory / name
        await asyncio.to_thread(_write, path, size)
        return path


def _write(path: Path, size: int) -> None:
    with path.open("wb") as file:
        for _ in range(size // BLOCK):
            file.write(os.urandom(BLOCK))


@asynccontextmanager
async def open_lab(directory: Path, stores: Sequence[Store], results: Results) -> AsyncGenerator[Lab]:
    sizes = QUICK if results.quick else FULL
    async with AsyncExitStack() as stack:
        minio = stack.enter_context(packaged_minio(directory / "minio")) if "mongo" in stores else None
        fleets: dict[Store, Fleet] = {}
        clients: dict[Store, hivemem.Hive] = {}
        for store in stores:
            more = _blobs(minio) if minio is not None and store == "mongo" else {}
            fleets[store] = stack.enter_context(running_fleet(directory / store, store, "artifacts", more))
            connecting = hivemem.connect(fleets[store].url, agent=AGENT, timeout_seconds=TIMEOUT_SECONDS)
            clients[store] = await stack.enter_async_context(connecting)
        yield Lab(directory, sizes, results, fleets, clients, minio)


def _blobs(minio: ProcessServer) -> dict[str, str]:
    return {
        "HIVEMEM_BLOBS": "minio",
        "HIVEMEM_MINIO_URL": minio.url,
        "HIVEMEM_MINIO_ACCESS_KEY": minio.address.access_key,
        "HIVEMEM_MINIO_SECRET_KEY": minio.address.secret_key,
    }
