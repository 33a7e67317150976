"""The real worker on a real bus, once per pair of stores; every test has a tenant of its own.

Every test runs on files with SQLite. Tests that depend on the stores also run on MinIO with MongoDB, and
`test_every_pair.py` runs on the other pairs as well.
"""

import tempfile
import uuid
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest
import pytest_asyncio
from nats.aio.client import Client

import hivemem
from hivemem_artifacts.ports import BlobStore
from hivemem_artifacts.worker import ArtifactsSettings, build
from hivemem_runtime.worker import Worker
from hivemem_testing.contract import Server
from hivemem_testing.stores import STORES, parametrize_stores

from .hive import Agent, connect, parts_of

PAIRS: Final = ("filesystem-sqlite", "minio-mongo")
OTHER_PAIRS: Final = ("filesystem-mongo", "minio-sqlite", "seaweedfs-sqlite")
STORE_SENSITIVE: Final = frozenset(
    {
        "test_client",
        "test_client_faults",
        "test_deletions",
        "test_garbage_collection",
        "test_kills",
        "test_presigned",
        "test_upkeep",
        "test_uploads",
        "test_views",
        "test_workers",
        "test_workspaces",
    }
)
"""The modules whose tests run on both of `PAIRS`."""
LARGEST: Final = 64 * 1024 * 1024


@dataclass(frozen=True)
class Deployment:
    """A running worker, and a connection to its bus."""

    pair: str
    settings: ArtifactsSettings
    worker: Worker
    client: Client

    def agent(self, name: str = "bot") -> Agent:
        return Agent(self.client, self.worker, f"tenant-{uuid.uuid4().hex[:12]}", name)

    @property
    def store(self) -> BlobStore:
        return parts_of(self.worker).store

    @property
    def folder(self) -> Path:
        """The folder of its files, on the filesystem."""
        return self.settings.data


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if metafunc.definition.path.stem == "test_every_pair":
        parametrize_stores(metafunc, "pair", (*PAIRS, *OTHER_PAIRS), {"test_every_pair"})
    else:
        parametrize_stores(metafunc, "pair", PAIRS, STORE_SENSITIVE)


@pytest.fixture(scope="package", autouse=True)
def nothing_is_left_in_temporary_folders(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    folder, before = tmp_path_factory.mktemp("temporary"), tempfile.tempdir
    tempfile.tempdir = str(folder)
    yield
    tempfile.tempdir = before
    assert list(folder.iterdir()) == []


@pytest.fixture(scope="session")
def pair(request: pytest.FixtureRequest) -> str:
    found: str = request.param
    return found


@pytest.fixture(scope="session")
def stores(pair: str, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The settings of both stores, empty at first."""
    blobs, ledger = pair.split("-")
    for found in STORES[ledger](request, "artifacts"):
        yield {"data": tmp_path_factory.mktemp(pair), **found, **blob_settings(blobs, request)}


def blob_settings(blobs: str, request: pytest.FixtureRequest) -> dict[str, Any]:
    if blobs == "filesystem":
        return {"blobs": "filesystem"}
    server: Server = request.getfixturevalue(f"{blobs}_server")
    return {
        "blobs": "minio",
        "minio_url": server.url,
        "minio_access_key": server.address.access_key,
        "minio_secret_key": server.address.secret_key,
        "minio_bucket": f"test-{uuid.uuid4().hex[:20]}",
    }


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def deployment(pair: str, stores: dict[str, Any], nats_server: Server) -> AsyncIterator[Deployment]:
    settings = ArtifactsSettings(nats_url=nats_server.url, artifact_bytes=LARGEST, **stores)
    worker = build(settings)
    await worker.start()
    client = await connect(nats_server.url)
    yield Deployment(pair, settings, worker, client)
    await client.close()
    await worker.stop()


@pytest.fixture
def bot(deployment: Deployment) -> Agent:
    """An agent of a new tenant."""
    return deployment.agent()


@pytest_asyncio.fixture(loop_scope="session")
async def hive(bot: Agent, nats_server: Server) -> AsyncIterator[hivemem.Hive]:
    """A client of the same agent."""
    async with hivemem.connect(nats_server.url, tenant=bot.tenant, agent=bot.name) as hive:
        yield hive
