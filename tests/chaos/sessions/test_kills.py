"""Whatever is killed, whenever: all that was acknowledged is there once, in order, and so it is on the feed."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from nats.aio.client import Client

from ..fleet import Store, running_fleet, worker_command
from ..torment import REST_AND_VERIFICATION_SECONDS, SECONDS, Stopping, torment
from .journal import Journal
from .load import Load, Size
from .verifier import verify

SETTINGS = {"HIVEMEM_ARCHIVE_AFTER_EVENTS": "100"}


@pytest.mark.slow
@pytest.mark.usefixtures("forgotten_sockets")
# The NATS client forgets a socket when the server dies in the middle of its connecting again.
@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
@pytest.mark.timeout(SECONDS + REST_AND_VERIFICATION_SECONDS)
@pytest.mark.parametrize(
    ("store", "workers"),
    [("embedded", 1), ("sqlite", 1), ("mongo", 1), ("mongo", 3)],
    ids=["embedded", "sqlite", "mongo", "mongo-three-workers"],
)
async def test_nothing_acknowledged_is_lost_repeated_or_reordered(
    store: Store, workers: int, tmp_path: Path, seed: int
) -> None:
    journal = Journal()

    async def load(clients: Sequence[Client], stopping: Stopping) -> None:
        await Load(clients, journal, seed, stopping).run(size_for(workers))

    async def compare(client: Client) -> list[str]:
        return await verify(client, journal)

    with running_fleet(tmp_path, store, [worker_command("hivemem_sessions")] * workers, SETTINGS) as fleet:
        await torment(fleet, seed, journal, load, compare)


def size_for(workers: int) -> Size:
    """With several workers a request's first try can arrive after its second one, even after the session was deleted:
    whoever takes the same id for a new life then has to expect that."""
    return Size() if workers == 1 else Size(mayflies=0)
