"""Ports for servers that are killed and restarted on the same port."""

import os
import random
import socket
from pathlib import Path
from typing import Final

LOOPBACK = "127.0.0.1"
LOWEST = 15_000
EPHEMERAL_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
ATTEMPTS = 200
PROCESSES: Final = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
PROCESS: Final = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
"""The number of this process in a run of pytest-xdist. Each process takes ports of its own."""


def free_port() -> int:
    """Return a free port outside the range from which the kernel takes ports for outgoing connections.

    Inside that range another connection could take the port while its server is down, and a client that keeps
    reconnecting could even connect to itself.
    """
    highest = _first_ephemeral_port() - 1
    for _ in range(ATTEMPTS):
        port = random.randrange(LOWEST + PROCESS, highest + 1, PROCESSES)
        with socket.socket() as probe:
            try:
                probe.bind((LOOPBACK, port))
            except OSError:
                continue
        return port
    raise OSError(f"no free port between {LOWEST} and {highest}")


def _first_ephemeral_port() -> int:
    try:
        first = int(EPHEMERAL_RANGE.read_text().split()[0])
    except OSError:
        return 32_768
    return first if first > LOWEST + 1_000 else 32_768
