"""Servers as containers, if a Docker engine answers and their images are available."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hivemem_testing.contract import Address, Origin
from hivemem_testing.engine import NoContainerError, engine_failure, have_image, settle_cleaner
from hivemem_testing.nats_program import OLDEST_VERSION, nats_configuration
from hivemem_testing.packaged import ACCESS_KEY, SECRET_KEY
from hivemem_testing.readiness import (
    FORGETTING_FILES,
    REPLICA_SET,
    http_answers,
    mongo_is_ready,
    nats_information,
    objects_are_ready,
    version_of,
)
from hivemem_testing.seaweedfs_program import seaweedfs_arguments, seaweedfs_keys

if TYPE_CHECKING:
    from testcontainers.core.container import DockerContainer

START_TIMEOUT_SECONDS = 60.0
POLL_SECONDS = 0.05
NATS_CONFIGURATION_FILE = "/hivemem-nats.conf"
SEAWEEDFS_KEYS_FILE = "/hivemem-seaweedfs.json"


@dataclass(frozen=True)
class Place:
    """The host and the port at which a container's port is reached from here."""

    host: str
    port: int


class ContainerServer:
    origin: Origin = "docker"

    def __init__(self, name: str, image: str, container: "DockerContainer", address: Address) -> None:
        self.name = name
        self.detail = image
        self.address = address
        self._container: DockerContainer | None = container

    @property
    def url(self) -> str:
        return self.address.url

    def start(self) -> None:
        if self._container is None:
            raise NoContainerError(f"{self.name}: the container is gone, with its data")

    def stop(self) -> None:
        """Remove the container."""
        if self._container is not None:
            self._container.stop()
            self._container = None


def nats_container() -> ContainerServer:
    container = _container("nats:2").with_exposed_ports(4222)
    configuration = nats_configuration("0.0.0.0", 4222, "/data")
    container.with_copy_into_container(configuration.encode(), NATS_CONFIGURATION_FILE)
    container.with_command(["--config", NATS_CONFIGURATION_FILE])

    def ready(place: Place) -> bool:
        information = nats_information(place.host, place.port)
        if information is None:
            return False
        if version_of(version := information.get("version")) < OLDEST_VERSION:
            raise NoContainerError(f"the image nats:2 holds {version}")
        return information.get("jetstream") is True

    return _started("nats-server", container, 4222, ready, lambda place: Address(f"nats://{place.host}:{place.port}"))


def mongo_container() -> ContainerServer:
    container = _container("mongo:8").with_exposed_ports(27017)
    container.with_command(
        ["--replSet", REPLICA_SET, "--wiredTigerCacheSizeGB", "0.25", "--bind_ip_all", *FORGETTING_FILES]
    )

    def ready(place: Place) -> bool:
        return mongo_is_ready(place.host, place.port, "localhost:27017")

    def address(place: Place) -> Address:
        # The member's own name resolves inside the container alone, so clients connect directly.
        return Address(f"mongodb://{place.host}:{place.port}/?replicaSet={REPLICA_SET}&directConnection=true")

    return _started("mongod", container, 27017, ready, address)


def qdrant_container() -> ContainerServer:
    container = _container("qdrant/qdrant:v1.16.3").with_exposed_ports(6333, 6334)
    container.with_env("QDRANT__TELEMETRY_DISABLED", "true")

    def address(place: Place) -> Address:
        return Address(f"http://{place.host}:{place.port}", grpc_port=container.get_exposed_port(6334))

    return _started("qdrant", container, 6333, lambda place: http_answers(place.host, place.port, "/readyz"), address)


def minio_container() -> ContainerServer:
    container = _container("minio/minio").with_exposed_ports(9000)
    container.with_envs(MINIO_ROOT_USER=ACCESS_KEY, MINIO_ROOT_PASSWORD=SECRET_KEY).with_command(["server", "/data"])

    def ready(place: Place) -> bool:
        return objects_are_ready(place.host, place.port, ACCESS_KEY, SECRET_KEY)

    def address(place: Place) -> Address:
        return Address(f"http://{place.host}:{place.port}", access_key=ACCESS_KEY, secret_key=SECRET_KEY)

    return _started("minio", container, 9000, ready, address)


def seaweedfs_container() -> ContainerServer:
    container = _container("chrislusf/seaweedfs:4.48").with_exposed_ports(8333)
    container.with_copy_into_container(seaweedfs_keys(ACCESS_KEY, SECRET_KEY).encode(), SEAWEEDFS_KEYS_FILE)
    container.with_command(list(seaweedfs_arguments(SEAWEEDFS_KEYS_FILE, "/data", host="0.0.0.0")))

    def ready(place: Place) -> bool:
        return objects_are_ready(place.host, place.port, ACCESS_KEY, SECRET_KEY)

    def address(place: Place) -> Address:
        return Address(f"http://{place.host}:{place.port}", access_key=ACCESS_KEY, secret_key=SECRET_KEY)

    return _started("seaweedfs", container, 8333, ready, address)


def _container(image: str) -> "DockerContainer":
    if (failure := engine_failure()) is not None:
        raise NoContainerError(failure)
    have_image(image)
    settle_cleaner()
    from testcontainers.core.container import DockerContainer

    return DockerContainer(image)


def _started(
    name: str,
    container: "DockerContainer",
    port: int,
    ready: Callable[[Place], bool],
    address: Callable[[Place], Address],
) -> ContainerServer:
    try:
        container.start()
        place = Place(container.get_container_host_ip(), container.get_exposed_port(port))
        deadline = time.monotonic() + START_TIMEOUT_SECONDS
        while not ready(place):
            if time.monotonic() > deadline:
                raise NoContainerError(f"{container.image} was not ready after {START_TIMEOUT_SECONDS:.0f} s")
            time.sleep(POLL_SECONDS)
        return ContainerServer(name, container.image, container, address(place))
    except BaseException as error:
        container.stop()
        if isinstance(error, Exception) and not isinstance(error, NoContainerError):
            raise NoContainerError(f"{container.image} does not start: {error}") from error
        raise
