"""The kinds of vector stores, and ways to kill the process that holds their points."""

import os
import signal
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from hivemem_testing.contract import Address, Server
from hivemem_testing.servers import packaged_qdrant
from hivemem_vectors.stores.arguments import CheckedStore
from hivemem_vectors.stores.edge.store import EdgeVectors
from hivemem_vectors.stores.ports import VectorStore
from hivemem_vectors.stores.qdrant.store import GRPC_PORT, QdrantVectors


@dataclass(frozen=True)
class Mortal:
    """A store on a process that can be killed: `kill` kills it at once, `start` makes it usable again."""

    store: VectorStore
    kill: Callable[[], None]
    start: Callable[[], None]


def grpc_url(address: Address) -> str:
    return f"http://{urlsplit(address.url).hostname}:{address.grpc_port or GRPC_PORT}"


def _edge(request: pytest.FixtureRequest) -> Callable[[], VectorStore]:
    folders: pytest.TempPathFactory = request.getfixturevalue("tmp_path_factory")
    folder = folders.mktemp("vectors") / "edge"
    return lambda: CheckedStore(EdgeVectors(folder))


def _qdrant(request: pytest.FixtureRequest) -> Callable[[], VectorStore]:
    server: Server = request.getfixturevalue("qdrant_server")
    return lambda: CheckedStore(QdrantVectors(grpc_url(server.address)))


def _quantized(request: pytest.FixtureRequest) -> Callable[[], VectorStore]:
    server: Server = request.getfixturevalue("qdrant_server")
    return lambda: CheckedStore(QdrantVectors(grpc_url(server.address), quantization="scalar"))


BACKENDS: dict[str, Callable[[pytest.FixtureRequest], Callable[[], VectorStore]]] = {
    "edge": _edge,
    "qdrant": _qdrant,
    "qdrant-scalar": _quantized,
}
"""Opens a store on a place that is empty at first."""


@asynccontextmanager
async def _mortal_edge(folder: Path) -> AsyncGenerator[Mortal]:
    store = EdgeVectors(folder / "edge")

    def kill() -> None:
        assert store.pid is not None
        os.kill(store.pid, signal.SIGKILL)

    # The next call starts it again.
    yield Mortal(store, kill, lambda: None)
    await store.close()


@asynccontextmanager
async def _mortal_qdrant(folder: Path) -> AsyncGenerator[Mortal]:
    with packaged_qdrant(folder / "server") as server:
        store = QdrantVectors(grpc_url(server.address))
        yield Mortal(store, server.kill, server.start)
        await store.close()


MORTALS = {"edge": _mortal_edge, "qdrant": _mortal_qdrant}
