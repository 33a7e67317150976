"""Checks that a fleet is healthy: ready, idle, no command given up, and memory within a bound."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, cast

from hivemem_testing.process import ProcessServer
from hivemem_testing.waiting import eventually

from ..chaos.fleet import Fleet, status, works
from ..chaos.strikes.processes import ended_by_itself

MEMORY_BYTES: Final = 1_500 * 1_048_576
"""The maximum memory of one process at any time, including all workers and the caches of their data."""

_REST: Final = ("lag", "failing", "queued", "under_way")
"""Numbers in a status that are 0 in an idle worker."""


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
    """Yield all numbers of that name in a status, alone or in an object."""
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
    """Return the peak memory of its process, in bytes."""
    lines = Path(f"/proc/{worker.pid}/status").read_text().splitlines()
    (peak,) = (line.split()[1] for line in lines if line.startswith("VmHWM"))
    return int(peak) * 1_024
