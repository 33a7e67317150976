"""Running servers that environment variables name."""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import urlsplit

from hivemem_testing.contract import Address, Origin, ServerUnavailableError, without_password
from hivemem_testing.nats_program import OLDEST_VERSION
from hivemem_testing.readiness import accepts, mongo_url_is_ready, nats_information, version_of

ANSWER_DEADLINE_SECONDS = 5.0
POLL_SECONDS = 0.1


@dataclass(frozen=True)
class EnvironmentServer:
    """A server that the tests do not own: `start` and `stop` do nothing."""

    name: str
    detail: str
    address: Address
    origin: Origin = "environment"

    @property
    def url(self) -> str:
        return self.address.url

    def start(self) -> None:
        pass

    def stop(self) -> None:
        pass


def nats_from_environment() -> EnvironmentServer | None:
    oldest = ".".join(map(str, OLDEST_VERSION))

    def usable(url: str) -> bool:
        information = nats_information(*_place(url, 4222))
        return information is not None and version_of(information.get("version")) >= OLDEST_VERSION

    return _named("nats-server", "HIVEMEM_TEST_NATS_URL", f"nats-server {oldest} or later", usable)


def mongo_from_environment() -> EnvironmentServer | None:
    return _named("mongod", "HIVEMEM_TEST_MONGO_URL", "primary of a replica set", mongo_url_is_ready)


def qdrant_from_environment() -> EnvironmentServer | None:
    return _named("qdrant", "HIVEMEM_TEST_QDRANT_URL", "server", lambda url: accepts(*_place(url, 6333)))


def minio_from_environment() -> EnvironmentServer | None:
    return _object_store("minio", "HIVEMEM_TEST_S3", 9000)


def seaweedfs_from_environment() -> EnvironmentServer | None:
    return _object_store("seaweedfs", "HIVEMEM_TEST_SEAWEEDFS", 8333)


def _object_store(name: str, prefix: str, default_port: int) -> EnvironmentServer | None:
    endpoint, access, secret = (f"{prefix}_{part}" for part in ("ENDPOINT", "ACCESS_KEY", "SECRET_KEY"))
    access_key, secret_key = os.environ.get(access, ""), os.environ.get(secret, "")
    server = _named(name, endpoint, "server", lambda url: accepts(*_place(url, default_port)))
    if server is None:
        return None
    if not (access_key and secret_key):
        variables = f"{access}, {secret} and {endpoint}"
        raise ServerUnavailableError(name, f"{endpoint} is set without its keys", variables)
    address = Address(server.url, access_key=access_key, secret_key=secret_key)
    return EnvironmentServer(server.name, server.detail, address)


def _named(name: str, variable: str, wanted: str, usable: Callable[[str], bool]) -> EnvironmentServer | None:
    url = os.environ.get(variable)
    if not url:
        return None
    deadline = time.monotonic() + ANSWER_DEADLINE_SECONDS
    while not usable(url):
        if time.monotonic() > deadline:
            raise ServerUnavailableError(name, f"no {wanted} answers at {without_password(url)}", variable)
        time.sleep(POLL_SECONDS)
    return EnvironmentServer(name, variable, Address(url))


def _place(url: str, default_port: int) -> tuple[str, int]:
    """Return host and port of the first address in `url`."""
    place = urlsplit(url.partition(",")[0])
    return place.hostname or "127.0.0.1", place.port or default_port
