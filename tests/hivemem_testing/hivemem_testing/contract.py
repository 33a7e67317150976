"""The interface of every test server, wherever it comes from."""

from dataclasses import dataclass
from typing import Literal, Protocol
from urllib.parse import urlsplit, urlunsplit

Origin = Literal["environment", "docker", "packages"]


class ServerUnavailableError(Exception):
    """None of the three ways yields the server; the text says what is missing and which variable to set instead."""

    def __init__(self, server: str, why: str, variable: str) -> None:
        super().__init__(f"{server}: {why}; or start one yourself and set {variable} to its address")


@dataclass(frozen=True)
class Address:
    url: str
    grpc_port: int | None = None
    """Qdrant's second port, if it is known."""
    access_key: str = ""
    secret_key: str = ""
    """The secret key. Only the object store has keys."""


class Server(Protocol):
    """One running server. `start` of a running one and `stop` of a stopped one do nothing."""

    @property
    def name(self) -> str: ...
    @property
    def origin(self) -> Origin: ...
    @property
    def detail(self) -> str:
        """The version, the image or the variable of this server, depending on its origin."""
        ...

    @property
    def address(self) -> Address: ...
    @property
    def url(self) -> str: ...
    def start(self) -> None: ...
    def stop(self) -> None: ...


def describe(server: Server) -> str:
    """Describe the server in one line: `mongod: from packages, 8.2.0, mongodb://127.0.0.1:20123/?replicaSet=rs0`."""
    return f"{server.name}: from {server.origin}, {server.detail}, {without_password(server.url)}"


def without_password(url: str) -> str:
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
