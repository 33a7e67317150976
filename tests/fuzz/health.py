"""Whether a fleet is as well as before: ready, at rest, nothing given up, its memory within a bound."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, cast

from hivemem_testing.process import ProcessServer
from hivemem_testing.waiting import eventually

from ..chaos.fleet import Fleet, status, works
from ..chaos.strikes.processes import ended_by_itself

MEMORY_BYTES: Final = 1_500 * 1_048_576
"""The most that one process may have held at any time, all workers and their data's caches together."""

_REST: Final = ("lag", "failing", "queued", "under_way")
"""Figures of a status that are 0 in an idle worker."""


async def at_rest(fleet: Fleet) -> None:
    """Wait until every worker is ready and idle. Fail if one has ended."""
    for worker in fleet.workers:
        assert not ended_by_itself(worker)
        await eventually(lambda: works(worker) and not any(unrest(json.loads(status(worker)))), f"{worker.name} rests")  # noqa: B023
        assert sum(figures(json.loads(status(worker)), "given_up")) == 0


def unrest(health: Any) -> Iterator[int]:
    for name in _REST:
        yield from figures(health, name)


def figures(health: Any, name: str) -> Iterator[int]:
    """Yield the numbers of that name anywhere in a status, alone or in an object."""
    if not isinstance(health, dict):
        return
    for field, value in cast("dict[str, Any]", health).items():
        if field != name:
            yield from figures(value, name)
        elif isinstance(value, dict):
            yield from map(int, cast("dict[str, Any]", value).values())
        else:
            yield int(value)


def most_memory(worker: ProcessServer) -> int:
    """The most bytes that its process has held at once."""
    lines = Path(f"/proc/{worker.pid}/status").read_text().splitlines()
    (peak,) = (line.split()[1] for line in lines if line.startswith("VmHWM"))
    return int(peak) * 1_024
