"""One short function an operation: commit a decision, or ask an index; and the raw subjects on which bytes travel."""

from dataclasses import dataclass
from typing import Final

from hivemem_artifacts.endpoints import saving
from hivemem_artifacts.endpoints.chunks import Holding
from hivemem_artifacts.endpoints.collecting import Collecting
from hivemem_artifacts.endpoints.deleting import Deleting
from hivemem_artifacts.endpoints.keeping import Keeping
from hivemem_artifacts.endpoints.listing import Listing
from hivemem_artifacts.endpoints.reading import Reading
from hivemem_artifacts.endpoints.uploading import Uploading
from hivemem_artifacts.ports import BlobStore
from hivemem_contracts.artifacts import operations
from hivemem_contracts.artifacts.chunks import CONTENTS_PATTERN, HEADER_BYTES, uploads_pattern
from hivemem_contracts.artifacts.operations import NAME
from hivemem_contracts.limits import ARTIFACT_CHUNK_BYTES
from hivemem_runtime.background import Background
from hivemem_runtime.bus.connection import Client
from hivemem_runtime.bus.raw import RawSubject
from hivemem_runtime.service import Service

CHUNKS_UNDER_WAY: Final = 128
"""Either way: so many chunks are in memory at most."""

_CHUNK_STEP: Final = 4_096


def chunk_bytes_for(max_payload: int) -> int:
    """The same for all workers of a server: a chunk and its headers pass through it."""
    return min(ARTIFACT_CHUNK_BYTES, (max_payload - HEADER_BYTES) // _CHUNK_STEP * _CHUNK_STEP)


@dataclass(frozen=True, slots=True)
class Limits:
    """What the settings say."""

    largest: int
    upload_seconds: int


class Endpoints(Background):
    """The operations of the artifacts service, bound; and, while it runs, the raw subjects."""

    def __init__(
        self,
        service: Service,
        store: BlobStore,
        holding: Holding,
        deleting: Deleting,
        collecting: Collecting,
        limits: Limits,
    ) -> None:
        keeping = Keeping(service.ledger, store)
        self._holding = holding
        self._store = store
        self._reading = Reading(service.ledger, store)
        self._uploading = Uploading(
            service.ledger, keeping, holding, largest=limits.largest, upload_seconds=limits.upload_seconds
        )
        saving.bind(service, keeping, limits.largest)
        Listing(service.ledger).bind(service)
        self._reading.bind(service)
        self._uploading.bind(service)
        deleting.bind(service)
        collecting.bind(service)
        uploads, policy = uploads_pattern(holding.member), service.policy
        self._raw = (
            RawSubject(uploads, self._uploading.chunk, operations.COMMIT, policy, under_way=CHUNKS_UNDER_WAY),
            RawSubject(
                CONTENTS_PATTERN, self._reading.chunk, operations.GET, policy, queue=NAME, under_way=CHUNKS_UNDER_WAY
            ),
        )

    async def start(self, client: Client) -> None:
        await self._store.check()
        self._reading.chunk_bytes = self._uploading.chunk_bytes = chunk_bytes_for(client.max_payload)
        self._uploading.client = client
        for raw in self._raw:
            await raw.start(client)

    async def stop(self) -> None:
        for raw in self._raw:
            await raw.stop()
        await self._holding.close()
        await self._store.close()
