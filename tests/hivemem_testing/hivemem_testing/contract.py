"""What every test server offers, wherever it comes from."""

from dataclasses import dataclass
from typing import Literal, Protocol
from urllib.parse import urlsplit, urlunsplit

Origin = Literal["environment", "docker", "packages"]


class ServerUnavailableError(Exception):
    """A server can be had in none of the three ways; the text says what is missing and what to set instead."""

    def __init__(self, server: str, why: str, variable: str) -> None:
        super().__init__(f"{server}: {why}; or start one yourself and set {variable} to its address")


@dataclass(frozen=True)
class Address:
    url: str
    grpc_port: int | None = None
    """Qdrant's second port, where it is known."""
    access_key: str = ""
    secret_key: str = ""
    """The keys are those of the object store; the other servers have none."""


class Server(Protocol):
    """One running server. `start` of a running one and `stop` of a stopped one do nothing."""

    @property
    def name(self) -> str: ...
    @property
    def origin(self) -> Origin: ...
    @property
    def detail(self) -> str:
        """Which one of this origin: a version, an image, a variable."""
        ...

    @property
    def address(self) -> Address: ...
    @property
    def url(self) -> str: ...
    def start(self) -> None: ...
    def stop(self) -> None: ...


def describe(server: Server) -> str:
    """One line for a person: `mongod: from packages, 8.2.0, mongodb://127.0.0.1:20123/?replicaSet=rs0`."""
    return f"{server.name}: from {server.origin}, {server.detail}, {without_password(server.url)}"


def without_password(url: str) -> str:
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
