"""Finds the process at the other end of a connection on loopback."""

import socket
import struct
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from hivemem_testing.ports import LOOPBACK
from hivemem_testing.process import ProcessServer, ServerFailedError

from .network import Source

_NETLINK_SOCK_DIAG: Final = 4
_SOCK_DIAG_BY_FAMILY: Final = 20
_REQUEST: Final = 1
_ALL_STATES: Final = 0xFFFF_FFFF
_NO_COOKIE: Final = 0xFFFF_FFFF
_HEADER: Final = struct.Struct("=IHHII")
_SOCKET: Final = struct.Struct("!HH4s12x4s12x")
_INODE: Final = struct.Struct("=84xI")
"""The place of the inode in the kernel's answer."""


def owner_of(processes: Mapping[str, ProcessServer]) -> Source:
    """Return a source that names one of `processes`, or is empty for any other process."""

    def owner(port: int, relay: int) -> str:
        opened = f"socket:[{_inode(port, relay)}]"
        return next((name for name, process in list(processes.items()) if _holds(process, opened)), "")

    return owner


def _inode(port: int, peer: int) -> int:
    """Ask the kernel for this one socket, since its list of all is long. Return 0 if the socket is gone."""
    address = socket.inet_aton(LOOPBACK)
    wanted = struct.pack("=BBBBI", socket.AF_INET, socket.IPPROTO_TCP, 0, 0, _ALL_STATES)
    wanted += _SOCKET.pack(port, peer, address, address) + struct.pack("=III", 0, _NO_COOKIE, _NO_COOKIE)
    header = _HEADER.pack(_HEADER.size + len(wanted), _SOCK_DIAG_BY_FAMILY, _REQUEST, 0, 0)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_SOCK_DIAG) as kernel:
        kernel.sendto(header + wanted, (0, 0))
        answer = kernel.recv(4096)
    _, kind, *_ = _HEADER.unpack_from(answer)
    return int(_INODE.unpack_from(answer)[0]) if kind == _SOCK_DIAG_BY_FAMILY else 0


def _holds(process: ProcessServer, opened: str) -> bool:
    with suppress(OSError, ServerFailedError):  # the process was killed meanwhile
        for descriptor in (Path("/proc") / str(process.pid) / "fd").iterdir():
            with suppress(OSError):
                if str(descriptor.readlink()) == opened:
                    return True
    return False
