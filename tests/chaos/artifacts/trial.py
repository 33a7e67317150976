"""Artifacts in the harness."""

from collections.abc import Sequence
from pathlib import Path

from nats.aio.client import Client

from hivemem_testing.servers import ProcessServer, packaged_minio

from ..fleet import worker_command
from ..journal import Journal
from ..service import Circumstances, Service, Stopping
from .load import save_files
from .verifier import verify


class ArtifactsTrial:
    def __init__(self, circumstances: Circumstances) -> None:
        self.journal = Journal()
        self._seed = circumstances.seed

    async def load(self, clients: Sequence[Client], stopping: Stopping) -> None:
        await save_files(clients, self.journal, self._seed, stopping)

    async def verify(self, client: Client) -> list[str]:
        return await verify(client, self.journal)


def _minio(directory: Path) -> tuple[ProcessServer, dict[str, str]]:
    minio = packaged_minio(directory / "minio")
    return minio, {
        "HIVEMEM_BLOBS": "minio",
        "HIVEMEM_MINIO_URL": minio.url,
        "HIVEMEM_MINIO_ACCESS_KEY": minio.address.access_key,
        "HIVEMEM_MINIO_SECRET_KEY": minio.address.secret_key,
    }


ARTIFACTS = Service(ArtifactsTrial, [worker_command("hivemem_artifacts")], outside=_minio)
