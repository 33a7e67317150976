"""What the installed distributions say of themselves: which workers there are, and in which version."""

from importlib.metadata import EntryPoint, entry_points, version
from typing import Final

GROUP: Final = "hivemem.workers"
"""The group of entry points that names the declaration of each worker by the name of its service."""
RUNTIME: Final = "hivemem-runtime"


def worker_entries() -> list[EntryPoint]:
    """Return the entry points of all installed workers, sorted by service."""
    return sorted(entry_points(group=GROUP), key=lambda entry: entry.name)


def version_of(service: str) -> str:
    """Return the version of the distribution that serves `service`, and the runtime's if none declares to."""
    for entry in worker_entries():
        if entry.name == service and entry.dist is not None:
            return entry.dist.version
    return version(RUNTIME)
