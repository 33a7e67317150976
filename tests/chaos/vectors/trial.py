"""The index in the harness: recall finds acknowledged memories once, in their newest version, and nothing else."""

from collections.abc import Sequence
from pathlib import Path

from nats.aio.client import Client

from hivemem_testing.servers import ProcessServer, packaged_qdrant

from ..fleet import worker_command
from ..memory.journal import Journal
from ..service import Circumstances, Service, Stopping
from .load import write_and_forget
from .verifier import verify


class VectorsTrial:
    def __init__(self, circumstances: Circumstances) -> None:
        self.journal = Journal()
        self._seed = circumstances.seed

    async def load(self, clients: Sequence[Client], stopping: Stopping) -> None:
        await write_and_forget(clients, self.journal, self._seed, stopping)

    async def verify(self, client: Client) -> list[str]:
        return await verify(client, self.journal)


def _qdrant(directory: Path) -> tuple[ProcessServer, dict[str, str]]:
    qdrant = packaged_qdrant(directory / "qdrant")
    host = qdrant.url.rpartition(":")[0]
    url = f"{host}:{qdrant.address.grpc_port}"
    return qdrant, {"HIVEMEM_VECTORS": "qdrant", "HIVEMEM_QDRANT_URL": url}


VECTORS = Service(VectorsTrial, [worker_command("hivemem_memory"), worker_command("hivemem_vectors")], outside=_qdrant)
