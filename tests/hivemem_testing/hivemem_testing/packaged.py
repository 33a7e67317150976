"""Each server as a private process from the package registries, on loopback, with its data in a given directory."""

import atexit
import functools
import platform
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from hivemem_testing.contract import Address, ServerUnavailableError
from hivemem_testing.debian import openssl_libraries
from hivemem_testing.nats_program import nats_binary, nats_configuration
from hivemem_testing.packages import MINIO, MONGOD, QDRANT, FetchError, NpmPackage, npm_binary
from hivemem_testing.ports import LOOPBACK, free_port
from hivemem_testing.process import ProcessServer, Program
from hivemem_testing.readiness import (
    FORGETTING_FILES,
    REPLICA_SET,
    http_answers,
    mongo_is_ready,
    nats_is_ready,
    objects_are_ready,
)
from hivemem_testing.seaweedfs_program import (
    remove_sockets,
    seaweedfs_arguments,
    seaweedfs_binary,
    seaweedfs_keys,
    seaweedfs_ports,
)

MINIO_RELEASE = "RELEASE.2023-03-13T19-46-17Z"
ACCESS_KEY = "hivemem"
SECRET_KEY = "hivemem-secret"

Found = TypeVar("Found")


def packaged_nats(
    directory: Path, port: int = 0, *, sync_interval: str | None = None, extra_configuration: str = ""
) -> ProcessServer:
    """Build a nats-server with JetStream. `extra_configuration` is appended to its configuration file."""
    binary, version = _or_unavailable("nats-server", "HIVEMEM_TEST_NATS_URL", nats_binary)
    port = port or free_port()
    configuration = _made(directory) / "nats.conf"
    configuration.write_text(
        nats_configuration(
            LOOPBACK, port, str(directory / "nats"), sync_interval=sync_interval, extra=extra_configuration
        )
    )
    program = Program(
        name="nats-server",
        version=version,
        command=(str(binary), "--config", str(configuration)),
        port=port,
        ready=functools.partial(nats_is_ready, LOOPBACK, port),
    )
    return _started(program, Address(f"nats://{LOOPBACK}:{port}"), directory)


def packaged_mongo(directory: Path, port: int = 0) -> ProcessServer:
    """Build a mongod that is the only member, and the primary, of the replica set `rs0`."""
    port = port or free_port()
    server = mongod(directory, port, functools.partial(mongo_is_ready, LOOPBACK, port, f"{LOOPBACK}:{port}"))
    server.start()
    return server


def mongod(directory: Path, port: int, ready: Callable[[], bool]) -> ProcessServer:
    """Build a member of the replica set `rs0`, without starting it."""
    variable = "HIVEMEM_TEST_MONGO_URL"
    binary = _npm_binary("mongod", variable, MONGOD)
    libraries = _or_unavailable("mongod", variable, openssl_libraries)
    data = _made(directory / "mongo")
    program = Program(
        name="mongod",
        version=MONGOD.version,
        command=(
            *(str(binary), "--dbpath", str(data), "--bind_ip", LOOPBACK, "--port", str(port)),
            *("--replSet", REPLICA_SET, "--wiredTigerCacheSizeGB", "0.25", "--nounixsocket"),
            # By default a stopping primary waits 15 seconds for a successor.
            *("--setParameter", "shutdownTimeoutMillisForSignaledShutdown=0"),
            *FORGETTING_FILES,
        ),
        environment={"LD_LIBRARY_PATH": str(libraries)},
        port=port,
        ready=ready,
    )
    return ProcessServer(program, Address(f"mongodb://{LOOPBACK}:{port}/?replicaSet={REPLICA_SET}"), directory)


def packaged_qdrant(directory: Path, port: int = 0) -> ProcessServer:
    binary = _npm_binary("qdrant", "HIVEMEM_TEST_QDRANT_URL", QDRANT)
    port = port or free_port()
    grpc_port = free_port()
    data = _made(directory / "qdrant")
    program = Program(
        name="qdrant",
        version=QDRANT.version,
        command=(str(binary),),
        environment={
            "QDRANT__SERVICE__HOST": LOOPBACK,
            "QDRANT__SERVICE__HTTP_PORT": str(port),
            "QDRANT__SERVICE__GRPC_PORT": str(grpc_port),
            "QDRANT__STORAGE__STORAGE_PATH": str(data / "storage"),
            "QDRANT__STORAGE__SNAPSHOTS_PATH": str(data / "snapshots"),
            "QDRANT__TELEMETRY_DISABLED": "true",
        },
        port=port,
        ready=functools.partial(http_answers, LOOPBACK, port, "/readyz"),
    )
    return _started(program, Address(f"http://{LOOPBACK}:{port}", grpc_port=grpc_port), directory)


def packaged_minio(directory: Path, port: int = 0) -> ProcessServer:
    binary = _npm_binary("minio", "HIVEMEM_TEST_S3_ENDPOINT", MINIO)
    port = port or free_port()
    data = _made(directory / "minio")
    program = Program(
        name="minio",
        version=MINIO_RELEASE,
        command=(str(binary), "server", str(data), "--address", f"{LOOPBACK}:{port}"),
        environment={
            "MINIO_ROOT_USER": ACCESS_KEY,
            "MINIO_ROOT_PASSWORD": SECRET_KEY,
            "MINIO_BROWSER": "off",
            "MINIO_UPDATE": "off",
        },
        port=port,
        ready=functools.partial(objects_are_ready, LOOPBACK, port, ACCESS_KEY, SECRET_KEY),
    )
    address = Address(f"http://{LOOPBACK}:{port}", access_key=ACCESS_KEY, secret_key=SECRET_KEY)
    return _started(program, address, directory)


def packaged_seaweedfs(directory: Path, port: int = 0) -> ProcessServer:
    variable = "HIVEMEM_TEST_SEAWEEDFS_ENDPOINT"
    binary, version = _or_unavailable("seaweedfs", variable, seaweedfs_binary)
    port = port or free_port()
    keys = _made(directory) / "seaweedfs-keys.json"
    keys.write_text(seaweedfs_keys(ACCESS_KEY, SECRET_KEY))
    data = _made(directory / "seaweedfs")
    ports = seaweedfs_ports(port)
    arguments = seaweedfs_arguments(str(keys), str(data), host=LOOPBACK, ports=ports)
    # Registered before the server's own stop, so it runs after that.
    atexit.register(remove_sockets, ports)
    program = Program(
        name="seaweedfs",
        version=version,
        command=(str(binary), *arguments),
        port=port,
        ready=functools.partial(objects_are_ready, LOOPBACK, port, ACCESS_KEY, SECRET_KEY),
        stop_seconds=2.0,  # otherwise it waits for clients to close their connections
    )
    address = Address(f"http://{LOOPBACK}:{port}", access_key=ACCESS_KEY, secret_key=SECRET_KEY)
    return _started(program, address, directory)


def _started(program: Program, address: Address, directory: Path) -> ProcessServer:
    server = ProcessServer(program, address, directory)
    server.start()
    return server


def _npm_binary(server: str, variable: str, package: NpmPackage) -> Path:
    if sys.platform != "linux" or platform.machine() != "x86_64":
        raise ServerUnavailableError(server, f"{package.name} holds a binary for Linux on x86_64 alone", variable)
    return _or_unavailable(server, variable, functools.partial(npm_binary, package))


def _or_unavailable(server: str, variable: str, find: Callable[[], Found]) -> Found:
    try:
        return find()
    except FetchError as error:
        raise ServerUnavailableError(server, str(error), variable) from error


def _made(directory: Path) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    return directory
