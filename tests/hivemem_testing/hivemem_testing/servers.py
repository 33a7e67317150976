"""The servers for the tests.

`shared_…` takes the first of three ways that works: the address in the environment, a container, a process from the
package registries. `packaged_…` always starts a private process, which a test may kill, pause and restart.
"""

import atexit
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from hivemem_testing.containers import (
    ContainerServer,
    minio_container,
    mongo_container,
    nats_container,
    qdrant_container,
    seaweedfs_container,
)
from hivemem_testing.contract import Address, Origin, Server, ServerUnavailableError, describe
from hivemem_testing.engine import NoContainerError
from hivemem_testing.environment import (
    EnvironmentServer,
    minio_from_environment,
    mongo_from_environment,
    nats_from_environment,
    qdrant_from_environment,
    seaweedfs_from_environment,
)
from hivemem_testing.packaged import (
    packaged_minio,
    packaged_mongo,
    packaged_nats,
    packaged_qdrant,
    packaged_seaweedfs,
)
from hivemem_testing.process import ProcessServer, ServerFailedError

__all__ = [
    "Address",
    "Origin",
    "ProcessServer",
    "Server",
    "ServerFailedError",
    "ServerUnavailableError",
    "describe",
    "packaged_minio",
    "packaged_mongo",
    "packaged_nats",
    "packaged_qdrant",
    "packaged_seaweedfs",
    "shared_minio",
    "shared_mongo",
    "shared_nats",
    "shared_qdrant",
    "shared_seaweedfs",
]


def shared_nats(directory: Path | None = None) -> Server:
    return _first(nats_from_environment, nats_container, packaged_nats, directory)


def shared_mongo(directory: Path | None = None) -> Server:
    return _first(mongo_from_environment, mongo_container, packaged_mongo, directory)


def shared_qdrant(directory: Path | None = None) -> Server:
    return _first(qdrant_from_environment, qdrant_container, packaged_qdrant, directory)


def shared_minio(directory: Path | None = None) -> Server:
    return _first(minio_from_environment, minio_container, packaged_minio, directory)


def shared_seaweedfs(directory: Path | None = None) -> Server:
    return _first(seaweedfs_from_environment, seaweedfs_container, packaged_seaweedfs, directory)


def _first(
    from_environment: Callable[[], EnvironmentServer | None],
    container: Callable[[], ContainerServer],
    packaged: Callable[[Path], ProcessServer],
    directory: Path | None,
) -> Server:
    """Return the first server that works. Without a `directory` a process keeps its data in a temporary one."""
    named = from_environment()
    if named is not None:
        return named
    try:
        return container()
    except NoContainerError as error:
        why_no_container = str(error)
    try:
        server = packaged(directory or _temporary_directory())
    except (ServerUnavailableError, ServerFailedError) as error:
        error.add_note(f"Docker was asked before: {why_no_container}")
        raise
    server.detail = f"{server.detail} ({why_no_container})"
    return server


def _temporary_directory() -> Path:
    directory = Path(tempfile.mkdtemp(prefix="hivemem-server-"))
    # Registered before the server's own stop, so it runs after that.
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    return directory
