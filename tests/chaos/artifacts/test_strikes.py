"""Whatever is killed, and while the object store is away: each file that was acknowledged is there, with its bytes."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest
from nats.aio.client import Client

from hivemem_testing.servers import packaged_minio

from ..fleet import Fleet, running_fleet, worker_command
from ..journal import Journal
from ..strikes.rolling import away
from ..torment import REST_AND_VERIFICATION_SECONDS, SECONDS, Load, Stopping, Striker, torment
from .load import save_files
from .verifier import verify

pytestmark = [
    pytest.mark.slow,
    pytest.mark.usefixtures("forgotten_sockets"),
    # The NATS client forgets a socket when the server dies in the middle of its connecting again.
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
    pytest.mark.timeout(SECONDS + REST_AND_VERIFICATION_SECONDS),
]


def load_of(journal: Journal, seed: int) -> Load:
    async def load(clients: Sequence[Client], stopping: Stopping) -> None:
        await save_files(clients, journal, seed, stopping)

    return load


async def test_kills_lose_no_file(tmp_path: Path, seed: int) -> None:
    journal = Journal()
    with running_fleet(tmp_path, "embedded", []) as fleet:
        await torment(fleet, seed, journal, load_of(journal, seed), lambda client: verify(client, journal))


async def test_a_minio_that_is_away_loses_no_file(tmp_path: Path, seed: int) -> None:
    journal = Journal()
    with ExitStack() as stack:
        minio = stack.enter_context(packaged_minio(tmp_path / "minio"))
        settings = {
            "HIVEMEM_BLOBS": "minio",
            "HIVEMEM_MINIO_URL": minio.url,
            "HIVEMEM_MINIO_ACCESS_KEY": minio.address.access_key,
            "HIVEMEM_MINIO_SECRET_KEY": minio.address.secret_key,
        }
        fleet = stack.enter_context(running_fleet(tmp_path, "sqlite", [worker_command("hivemem_artifacts")], settings))

        def strike(_: Fleet, seed: int, stopping: Stopping, done: Callable[[], int]) -> Striker:
            return away(minio, seed, stopping, done)

        load, seconds = load_of(journal, seed), SECONDS * 3 / 2
        await torment(fleet, seed, journal, load, lambda client: verify(client, journal), seconds, strike)
