"""Whatever is killed, whenever: all that was acknowledged is there once, in order, and so it is on the feed."""

import asyncio
import os
import time
from pathlib import Path

import pytest

from .asking import connect
from .fleet import Fleet, Store, running_fleet
from .journal import Journal
from .killer import Killer
from .load import Load, Size
from .rest import come_to_rest
from .verifier import FINDINGS_SHOWN, verify

SECONDS = float(os.environ.get("HIVEMEM_TEST_CHAOS_SECONDS", "8"))
LOAD_CONNECTIONS = 3


@pytest.mark.slow
@pytest.mark.usefixtures("forgotten_sockets")
# The NATS client forgets a socket when the server dies in the middle of its connecting again.
@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
@pytest.mark.timeout(SECONDS + 240)
@pytest.mark.parametrize(
    ("store", "workers"),
    [("embedded", 1), ("sqlite", 1), ("mongo", 1), ("mongo", 3)],
    ids=["embedded", "sqlite", "mongo", "mongo-three-workers"],
)
async def test_nothing_acknowledged_is_lost_repeated_or_reordered(
    store: Store, workers: int, tmp_path: Path, seed: int
) -> None:
    with running_fleet(tmp_path, store, workers) as fleet:
        journal, killer = await torment(fleet, seed)
        client = await connect(fleet.nats_url)
        await come_to_rest(client, fleet)
        findings = [*journal.findings, *killer.findings, *await verify(client, journal)]
        await client.close()
    strikes = ", ".join(f"{name} {count}" for name, count in sorted(killer.strikes.items()))
    done = f"{journal.acknowledged()} writes, {journal.repeated} repeated, {sum(journal.lives.values())} lives"
    summary = f"{done}; {strikes}"
    print(summary)  # noqa: T201 - shown with -s, and with what failed
    shown = "\n".join(findings[:FINDINGS_SHOWN])
    assert not findings, f"{len(findings)} findings with HIVEMEM_TEST_SEED={seed} after {summary}:\n{shown}"
    assert journal.acknowledged() > 100, "there was hardly any load"


async def torment(fleet: Fleet, seed: int) -> tuple[Journal, Killer]:
    end = time.monotonic() + SECONDS
    journal = Journal()
    killer = Killer(fleet, seed, lambda: time.monotonic() > end)
    clients = [await connect(fleet.nats_url) for _ in range(LOAD_CONNECTIONS)]
    load = Load(clients, journal, seed, lambda: time.monotonic() > end)
    try:
        await asyncio.gather(load.run(size_for(fleet)), killer.run())
    finally:
        await asyncio.gather(*(client.close() for client in clients))
    return journal, killer


def size_for(fleet: Fleet) -> Size:
    """With several workers a request's first try can arrive after its second one, even after the session was deleted:
    whoever takes the same id for a new life then has to expect that."""
    return Size() if len(fleet.workers) == 1 else Size(mayflies=0)
