"""The addresses on which a process listens, as the kernel lists them."""

from contextlib import suppress
from pathlib import Path

_LISTENING = "0A"


def listening_addresses(pid: int) -> set[str]:
    """Return the hexadecimal addresses of all its listening sockets, for IPv4 and IPv6."""
    inodes: set[str] = set()
    for descriptor in (Path("/proc") / str(pid) / "fd").iterdir():
        with suppress(OSError):
            inodes.add(str(descriptor.readlink()).removeprefix("socket:[").removesuffix("]"))
    found: set[str] = set()
    for table in ("tcp", "tcp6"):
        for line in (Path("/proc") / str(pid) / "net" / table).read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == _LISTENING and fields[9] in inodes:
                found.add(fields[1].partition(":")[0])
    return found
