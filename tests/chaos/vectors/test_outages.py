"""Writes go on while the vector store is away, and the index catches up once it is back."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest
from nats.aio.client import Client

from hivemem_testing.servers import packaged_qdrant

from ..fleet import Fleet, running_fleet
from ..memory.journal import Journal
from ..strikes.rolling import away
from ..torment import REST_AND_VERIFICATION_SECONDS, SECONDS, Stopping, Striker, torment
from .load import write_and_forget
from .test_kills import MEMORY, VECTORS, on_server
from .verifier import verify


@pytest.mark.slow
@pytest.mark.usefixtures("forgotten_sockets")
@pytest.mark.timeout(SECONDS + REST_AND_VERIFICATION_SECONDS)
async def test_a_qdrant_that_is_away_costs_no_memory_its_place(tmp_path: Path, seed: int) -> None:
    journal = Journal()

    async def load(clients: Sequence[Client], stopping: Stopping) -> None:
        await write_and_forget(clients, journal, seed, stopping)

    with ExitStack() as stack:
        qdrant = stack.enter_context(packaged_qdrant(tmp_path / "qdrant"))
        fleet = stack.enter_context(running_fleet(tmp_path, "sqlite", [MEMORY, VECTORS], on_server(qdrant)))

        def strike(_: Fleet, seed: int, stopping: Stopping, done: Callable[[], int]) -> Striker:
            return away(qdrant, seed, stopping, done)

        await torment(fleet, seed, journal, load, lambda client: verify(client, journal), strike=strike)
