"""Whatever is killed, whenever: what was acknowledged is there once, in order, on the feed and in the audit."""

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from nats.aio.client import Client

from ..fleet import Command, Fleet, Store, running_fleet, worker_command
from ..torment import REST_AND_VERIFICATION_SECONDS, SECONDS, Stopping, torment
from .journal import Journal
from .load import Load, Size
from .verifier import verify

MODULE = "hivemem_memory"
HASTY = str(Path(__file__).with_name("hasty_worker.py"))
SHIFTS_SECONDS = (0, 20, -20)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.usefixtures("forgotten_sockets"),
    # The NATS client forgets a socket when the server dies in the middle of its connecting again.
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
    pytest.mark.timeout(SECONDS + REST_AND_VERIFICATION_SECONDS),
]


def hasty(shift_seconds: float = 0) -> Command:
    return sys.executable, HASTY, str(shift_seconds), MODULE


@pytest.mark.parametrize(
    ("store", "workers"),
    [
        ("embedded", []),
        ("sqlite", [worker_command(MODULE)]),
        ("mongo", [hasty()]),
        ("mongo", [hasty(), hasty(), hasty()]),
    ],
    ids=["embedded", "sqlite", "mongo", "mongo-three-workers"],
)
async def test_nothing_acknowledged_is_lost_repeated_or_reordered(
    store: Store, workers: Sequence[Command], tmp_path: Path, seed: int
) -> None:
    with running_fleet(tmp_path, store, workers) as fleet:
        await run(fleet, seed, Size(), SECONDS * 5 / 8)


async def test_clocks_that_differ_reorder_nothing(tmp_path: Path, seed: int) -> None:
    """Only workers are killed, so that more is written. No erasures: whether what waits in the stream is older than one
    is a question of time."""
    with running_fleet(tmp_path, "mongo", [hasty(shift) for shift in SHIFTS_SECONDS]) as fleet:
        await run(replace(fleet, servers=()), seed, Size(mayflies=0), SECONDS / 2, skewed=True)


async def run(fleet: Fleet, seed: int, size: Size, seconds: float, *, skewed: bool = False) -> None:
    journal = Journal()

    async def load(clients: Sequence[Client], stopping: Stopping) -> None:
        await Load(clients, journal, seed, stopping).run(size)

    async def compare(client: Client) -> list[str]:
        return await verify(client, journal, seed, skewed=skewed)

    await torment(fleet, seed, journal, load, compare, seconds)
