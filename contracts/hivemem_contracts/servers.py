"""Addresses of NATS servers in settings and arguments: one, or several separated by commas."""

from typing import Final
from urllib.parse import urlsplit

_TCP: Final = ("nats", "tls")
_WEBSOCKET: Final = ("ws", "wss")


def server_list(urls: str) -> list[str]:
    """Split and check the addresses. Raises `ValueError`, which names the wrong address without its password."""
    servers = [server.strip() for server in urls.split(",")]
    schemes = {_checked(server, place, len(servers)) in _WEBSOCKET for place, server in enumerate(servers, start=1)}
    if len(schemes) > 1:
        raise ValueError(f"{shown_servers(urls)}: websocket addresses cannot be mixed with others")
    return servers


def shown_servers(urls: str) -> str:
    """Return the addresses without users and passwords."""
    return ",".join(_shown(server) for server in urls.split(","))


def _shown(server: str) -> str:
    scheme, separator, rest = server.strip().rpartition("://")
    return f"{scheme}{separator}{rest.rpartition('@')[2]}"


def _checked(server: str, place: int, count: int) -> str:
    """Return the scheme of one address, or raise `ValueError`."""
    which = f"{_shown(server)!r}" if count == 1 else f"{_shown(server)!r} (server {place} of {count})"
    if not server:
        raise ValueError(f"{which} is empty")
    try:
        parts = urlsplit(server if "://" in server else f"nats://{server}")
        host, port = parts.hostname, parts.port
        server.encode()
    except ValueError:
        # The cause is left out: it may quote the password.
        raise ValueError(f"{which}: the host or the port cannot be read; a port is a number up to 65535") from None
    if parts.scheme not in _TCP + _WEBSOCKET:
        raise ValueError(f"{which}: the scheme {parts.scheme!r} is none of {', '.join(_TCP + _WEBSOCKET)}")
    if not host or any(character.isspace() for character in host):
        raise ValueError(f"{which}: there is no host in it")
    if port == 0:
        raise ValueError(f"{which}: no server can have port 0")
    return parts.scheme
