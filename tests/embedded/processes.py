"""The processes that a fleet has started, as the kernel lists them."""

from contextlib import suppress
from pathlib import Path
from typing import Final

ENGINE: Final = "hivemem_vectors.stores.edge.program"


def engines_of(parent: int) -> list[int]:
    """Return the processes of the vector engine; the list is empty before it starts."""
    return [pid for pid in children_of(parent) if ENGINE in command_of(pid)]


def children_of(parent: int) -> list[int]:
    found: list[int] = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # the process may end in between
            if int((process / "stat").read_text().rpartition(")")[2].split()[1]) == parent:
                found.append(int(process.name))
    return found


def command_of(pid: int) -> str:
    with suppress(OSError):
        return (Path("/proc") / str(pid) / "cmdline").read_text().replace("\0", " ")
    return ""
