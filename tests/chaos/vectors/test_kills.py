"""Whatever is killed, whenever: what was acknowledged is found as it is, once, and nothing else is."""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest
from nats.aio.client import Client

from hivemem_testing.process import ProcessServer
from hivemem_testing.servers import packaged_qdrant

from ..fleet import Command, Store, running_fleet, worker_command
from ..memory.journal import Journal
from ..torment import REST_AND_VERIFICATION_SECONDS, SECONDS, Stopping, torment
from .load import write_and_forget
from .verifier import verify

MEMORY = worker_command("hivemem_memory")
VECTORS = worker_command("hivemem_vectors")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.usefixtures("forgotten_sockets"),
    # The NATS client forgets a socket when the server dies in the middle of its connecting again.
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
    pytest.mark.timeout(SECONDS + REST_AND_VERIFICATION_SECONDS),
]


@pytest.mark.parametrize(
    ("store", "workers"),
    [("embedded", []), ("sqlite", [MEMORY, VECTORS]), ("mongo", [MEMORY, VECTORS, VECTORS])],
    ids=["embedded", "sqlite", "mongo-qdrant-two-workers"],
)
async def test_what_is_found_is_what_was_acknowledged(
    store: Store, workers: Sequence[Command], tmp_path: Path, seed: int
) -> None:
    journal = Journal()

    async def load(clients: Sequence[Client], stopping: Stopping) -> None:
        await write_and_forget(clients, journal, seed, stopping)

    async def compare(client: Client) -> list[str]:
        return await verify(client, journal)

    with ExitStack() as stack:
        qdrant = stack.enter_context(packaged_qdrant(tmp_path / "qdrant")) if store == "mongo" else None
        settings = {} if qdrant is None else on_server(qdrant)
        fleet = stack.enter_context(running_fleet(tmp_path, store, workers, settings))
        if qdrant is not None:
            fleet = replace(fleet, servers=(*fleet.servers, qdrant))
        await torment(fleet, seed, journal, load, compare)


def on_server(qdrant: ProcessServer) -> dict[str, str]:
    host = qdrant.url.rpartition(":")[0]
    return {"HIVEMEM_VECTORS": "qdrant", "HIVEMEM_QDRANT_URL": f"{host}:{qdrant.address.grpc_port}"}
