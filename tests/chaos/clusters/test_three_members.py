"""The primary of three MongoDB members is killed, frozen, or steps down: what was acknowledged is kept, once."""

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from nats.aio.client import Client

from ..fleet import Fleet, worker_command
from ..sessions.journal import Journal
from ..sessions.load import Load, Size
from ..sessions.verifier import verify
from ..strikes.rolling import Rolling
from ..torment import REST_AND_VERIFICATION_SECONDS, SECONDS, Stopping, torment
from .fleet import fleet_on_three_members

WORKER = worker_command("hivemem_sessions")

SIZE = Size(sessions=8, hot_writers=4, routes=2, mayflies=0)
"""Few durable commands: they are acknowledged whatever the workers do, and have to be done at the end."""


@pytest.mark.slow
@pytest.mark.usefixtures("forgotten_sockets")
@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
@pytest.mark.timeout(SECONDS + REST_AND_VERIFICATION_SECONDS)
async def test_nothing_is_lost_while_primaries_come_and_go(tmp_path: Path, seed: int) -> None:
    journal = Journal()

    async def load(clients: Sequence[Client], stopping: Stopping) -> None:
        await Load(clients, journal, seed, stopping).run(SIZE)

    async def compare(client: Client) -> list[str]:
        return await verify(client, journal)

    with fleet_on_three_members(tmp_path, [WORKER, WORKER]) as (fleet, replica_set):
        strikers: list[Rolling] = []

        def strike(fleet: Fleet, seed: int, stopping: Stopping, _: Callable[[], int]) -> Rolling:
            del fleet
            strikers.append(
                Rolling(
                    seed,
                    lambda _: replica_set.primary(),
                    replica_set.healthy,
                    stopping,
                    journal.answered,
                    step_down=replica_set.step_down,
                )
            )
            return strikers[-1]

        await torment(fleet, seed, journal, load, compare, strike=strike)
        print(strikers[0].summary())  # noqa: T201 - shown with -s
