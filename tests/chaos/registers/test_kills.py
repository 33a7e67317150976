"""Kills at any moment lose no update of writers that name the version they have read."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from nats.aio.client import Client

from ..fleet import Command, Store, running_fleet, worker_command
from ..torment import REST_AND_VERIFICATION_SECONDS, SECONDS, Stopping, torment
from .checker import check
from .load import Journal, MemoryRegister, Register, SessionRegister, read_and_write

SESSIONS = worker_command("hivemem_sessions")
MEMORY = worker_command("hivemem_memory")


@pytest.mark.slow
@pytest.mark.usefixtures("forgotten_sockets")
# The NATS client forgets a socket when the server dies in the middle of its connecting again.
@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
@pytest.mark.timeout(SECONDS + REST_AND_VERIFICATION_SECONDS)
@pytest.mark.parametrize(
    ("store", "workers"),
    [("embedded", []), ("mongo", [SESSIONS, SESSIONS, MEMORY, MEMORY])],
    ids=["embedded", "mongo-two-workers-each"],
)
async def test_no_update_is_lost(store: Store, workers: Sequence[Command], tmp_path: Path, seed: int) -> None:
    journal = Journal()
    registers: list[Register] = [*map(SessionRegister, ("s1", "s2")), *map(MemoryRegister, ("m1", "m2"))]

    async def load(clients: Sequence[Client], stopping: Stopping) -> None:
        await read_and_write(registers, clients, journal, seed, stopping)

    async def compare(client: Client) -> list[str]:
        histories = {register.name: await register.history(client) for register in registers}
        return list(check(journal.operations, histories))

    with running_fleet(tmp_path, store, workers) as fleet:
        # The bus holds nothing of this; where it is struck as well, there are hardly any conflicts.
        struck = replace(fleet, servers=tuple(each for each in fleet.servers if each.name != "nats-server"))
        await torment(struck, seed, journal, load, compare)
