"""The operations that read an artifact: its metadata, its bytes inline or by URL, and its chunks."""

from base64 import b64encode
from datetime import UTC, datetime, timedelta
from typing import Final
from zlib import crc32

from hivemem_artifacts.decisions.deletions import artifact_not_found
from hivemem_artifacts.entities.artifacts import (
    ARTIFACT,
    ArtifactHead,
    ArtifactRecord,
    evolve_artifact,
    version_fields,
)
from hivemem_artifacts.entities.places import place_of
from hivemem_artifacts.ports import BlobStore
from hivemem_contracts.artifacts import operations, requests
from hivemem_contracts.artifacts.chunks import (
    CHUNK_HEADER,
    CRC32_HEADER,
    content_subject,
    parse_content_subject,
)
from hivemem_contracts.artifacts.models import Artifact
from hivemem_contracts.artifacts.replies import ArtifactContent
from hivemem_contracts.errors import InvalidRequest
from hivemem_contracts.identifiers import time_from_microseconds
from hivemem_contracts.limits import ARTIFACT_CHUNK_BYTES, ARTIFACT_INLINE_BYTES
from hivemem_contracts.sizes import check_size
from hivemem_runtime.bus.requests.raw_subjects import RawAnswer, RawRequest
from hivemem_runtime.ledger.entity import Stamp
from hivemem_runtime.ledger.port import Ledger
from hivemem_runtime.service import Call, Service

PRESIGNED_GET_SECONDS: Final = 3_600
_CHUNK_DIGITS: Final = 15


def bind(service: Service, reads: "ArtifactReads") -> None:
    service.handler(operations.GET, reads.get)
    service.handler(operations.STAT, reads.stat)


def version_of(record: ArtifactRecord, stamp: Stamp) -> ArtifactHead:
    """Return a version in the shape of a head."""
    return evolve_artifact(None, record, stamp)


def artifact_model(tenant: str, place: str, version: ArtifactHead) -> Artifact:
    """Return the wire format of a version, without validation: it was validated before it was stored."""
    fields = version_fields(tenant, place, version)
    fields["created_at"] = time_from_microseconds(version.created_at)
    return Artifact.model_construct(**fields)


async def find_version(ledger: Ledger, tenant: str, place: str, version: int | None = None) -> ArtifactHead:
    """Return a version, by default the newest. Raises `NotFound`."""
    if version is None:
        head = await ledger.head(ARTIFACT, tenant, place)
        if head is None or head.value is None:
            raise artifact_not_found(place)
        return head.value
    record = await ledger.record(ARTIFACT, tenant, place, version) if version else None
    if record is None:
        raise artifact_not_found(place, version)
    return version_of(record.value, record.stamp)


def chunk_index(request: RawRequest) -> int:
    text = request.headers.get(CHUNK_HEADER, "")
    if not (text.isascii() and text.isdigit() and len(text) <= _CHUNK_DIGITS):
        raise InvalidRequest(
            f"{CHUNK_HEADER}: the header must be the number of a chunk, counted from 0", field=CHUNK_HEADER
        )
    return int(text)


class ArtifactReads:
    """The operations `get` and `stat`, and the answers to requests for chunks."""

    def __init__(self, ledger: Ledger, store: BlobStore) -> None:
        self._ledger = ledger
        self._store = store
        self.chunk_bytes = ARTIFACT_CHUNK_BYTES
        """The chunk size, known once the worker is connected."""

    async def stat(self, call: Call, body: requests.StatArtifact) -> Artifact:
        place = place_of(body.session_id, body.name)
        found = await find_version(self._ledger, call.sender.tenant, place, body.version)
        return artifact_model(call.sender.tenant, place, found)

    async def get(self, call: Call, body: requests.GetArtifact) -> ArtifactContent:
        tenant, place = call.sender.tenant, place_of(body.session_id, body.name)
        found = await find_version(self._ledger, tenant, place, body.version)
        offset = body.offset or 0
        if offset > found.size:
            raise InvalidRequest(f"offset: {offset} is past the end, there are {found.size} bytes", field="offset")
        url, expires_at = None, None
        if body.presigned:
            url = await self._store.presign_get(
                tenant,
                found.blob,
                seconds=PRESIGNED_GET_SECONDS,
                file_name=body.name.rpartition("/")[2],
                content_type=found.content_type,
            )
            expires_at = datetime.now(UTC) + timedelta(seconds=PRESIGNED_GET_SECONDS)
        elsewhere = body.presigned and body.offset is None and body.length is None
        data = None if elsewhere else await self._inline(tenant, found, body)
        return ArtifactContent.model_construct(
            artifact=artifact_model(tenant, place, found),
            data_base64=None if data is None else b64encode(data).decode(),
            offset=offset,
            chunk_subject=content_subject(tenant, call.sender.agent, body.session_id, body.name, found.version),
            chunk_bytes=self.chunk_bytes,
            get_url=url,
            get_url_expires_at=expires_at,
        )

    async def _inline(self, tenant: str, found: ArtifactHead, body: requests.GetArtifact) -> bytes | None:
        """Return the requested range, or the whole artifact if no range is requested and it fits."""
        if body.length is not None:
            check_size("length", body.length, ARTIFACT_INLINE_BYTES)
        offset = body.offset or 0
        close_idle = found.size - offset
        if body.offset is None and body.length is None and close_idle > ARTIFACT_INLINE_BYTES:
            return None
        length = min(close_idle, ARTIFACT_INLINE_BYTES if body.length is None else body.length)
        return await self._store.read(tenant, found.blob, offset, length) if length else b""

    async def chunk(self, request: RawRequest) -> RawAnswer:
        """Answer a request for a chunk. Each one looks up the version, so that a deleted artifact or another
        tenant's is not found."""
        sender, asked = parse_content_subject(request.subject)
        index = chunk_index(request)
        found = await find_version(self._ledger, sender.tenant, place_of(asked.session_id, asked.name), asked.version)
        offset = index * self.chunk_bytes
        length = min(self.chunk_bytes, found.size - offset)
        if length < 0 or (length == 0 and index):
            last = max(found.size - 1, 0) // self.chunk_bytes
            raise InvalidRequest(f"{CHUNK_HEADER}: the last chunk is {last}", field=CHUNK_HEADER, last=last)
        data = await self._store.read(sender.tenant, found.blob, offset, length) if length else b""
        return RawAnswer({CHUNK_HEADER: str(index), CRC32_HEADER: f"{crc32(data):08x}"}, data)
