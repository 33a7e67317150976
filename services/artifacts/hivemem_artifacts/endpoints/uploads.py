"""The operations of uploads: `begin`, `resume` and `abort`, and the chunks."""

from typing import Final

from hivemem_artifacts.decisions.uploads import Committed, abort_upload, begin_upload
from hivemem_artifacts.endpoints.open_uploads import OpenUploads
from hivemem_artifacts.endpoints.reads import chunk_index
from hivemem_artifacts.endpoints.saves import require_value_name
from hivemem_artifacts.endpoints.upload_commits import UploadCommits, committed_artifact, find_upload
from hivemem_artifacts.entities.artifacts import require_announceable
from hivemem_artifacts.entities.uploads import UPLOAD, Upload
from hivemem_artifacts.entities.workspaces import require_announceable_workspace
from hivemem_artifacts.ports import BlobStore
from hivemem_contracts.artifacts import models, operations, requests
from hivemem_contracts.artifacts.chunks import parse_upload_subject, upload_subject
from hivemem_contracts.artifacts.replies import UploadAborted
from hivemem_contracts.errors import InvalidRequest
from hivemem_contracts.identifiers import derived_id, time_from_microseconds
from hivemem_contracts.limits import ARTIFACT_CHUNK_BYTES
from hivemem_contracts.sizes import check_size
from hivemem_contracts.subjects import Sender
from hivemem_runtime.bus.requests.raw_subjects import RawAnswer, RawRequest
from hivemem_runtime.ledger.port import Ledger
from hivemem_runtime.service import Call, Service, earlier_outcome

PRESIGNED_SECONDS: Final = 604_800
"""The maximum lifetime of a presigned URL."""


def bind(service: Service, uploads: "Uploads") -> None:
    service.handler(operations.BEGIN, uploads.begin)
    service.handler(operations.RESUME, uploads.resume)
    service.handler(operations.ABORT, uploads.abort)


class Uploads:
    """The operations of uploads, and the answers to chunks."""

    def __init__(
        self,
        ledger: Ledger,
        store: BlobStore,
        open_uploads: OpenUploads,
        commits: UploadCommits,
        *,
        largest: int,
        upload_seconds: int,
    ) -> None:
        self._ledger = ledger
        self._store = store
        self._open_uploads = open_uploads
        self._commits = commits
        self.chunk_bytes = ARTIFACT_CHUNK_BYTES
        """The chunk size, known once the worker is connected."""
        self._largest = largest
        self._upload_seconds = upload_seconds

    async def begin(self, call: Call, body: requests.BeginUpload) -> models.Upload:
        sender = call.sender
        if body.size is not None:
            check_size("size", body.size, self._largest)
        if body.presigned:
            self._check_presigned(body)
        session_id, name = body.session_id or "", body.name or ""
        if body.workspace_id is None:
            require_announceable(sender.tenant, session_id, name)
            require_value_name(name, body.sha256)
        else:
            require_announceable_workspace(sender.tenant, body.workspace_id)
        upload_id = derived_id("upload", sender.tenant, call.request_name)
        until = self._open_uploads.deadline()
        upload = Upload(
            session_id,
            name,
            until - self._upload_seconds * 1_000_000,
            until,
            self.chunk_bytes,
            self._open_uploads.member,
            body.size,
            body.sha256,
            body.content_type,
            body.metadata,
            body.presigned,
            workspace_id=body.workspace_id,
        )
        outcome = await self._ledger.commit(
            call.write(UPLOAD, upload_id, lambda heads, now: begin_upload(heads, upload_id, upload))
        )
        if outcome.duplicate:
            return await self._resumed(sender, upload_id)
        return await self._view(sender, upload_id, upload, next_chunk=0)

    def _check_presigned(self, body: requests.BeginUpload) -> None:
        able = self._store.presigned
        if not able.able:
            raise InvalidRequest(able.reason, field="presigned")
        if body.size is None:
            raise InvalidRequest("size: a presigned upload must state its size", field="size")

    async def resume(self, call: Call, body: requests.ResumeUpload) -> models.Upload:
        await earlier_outcome(self._ledger, call, UPLOAD, body.upload_id)
        upload = await self._resumed(call.sender, body.upload_id)
        await self._ledger.commit(call.note(UPLOAD, body.upload_id))
        return upload

    async def _resumed(self, sender: Sender, upload_id: str) -> models.Upload:
        try:
            head = await self._ledger.head(UPLOAD, sender.tenant, upload_id)
            if head is not None and head.value is not None and head.value.presigned:
                upload = await self._open_uploads.extend(sender.tenant, sender.agent, upload_id)
                return await self._view(sender, upload_id, upload, next_chunk=0)
            opened = await self._open_uploads.take_over(sender.tenant, sender.agent, upload_id)
            return await self._view(sender, upload_id, opened.upload, next_chunk=opened.next_chunk)
        except Committed:
            upload = await find_upload(self._ledger, sender.tenant, upload_id)
            artifact = await committed_artifact(self._ledger, sender, upload_id, upload)
            view = await self._view(sender, upload_id, upload, next_chunk=0)
            return view.model_copy(update={"artifact": artifact})

    async def _view(self, sender: Sender, upload_id: str, upload: Upload, *, next_chunk: int) -> models.Upload:
        stored = await self._commits.stored_size(sender.tenant, upload.sha256, upload.size) if upload.open else None
        put_url = None
        if upload.open and upload.presigned:
            seconds = min(self._upload_seconds, PRESIGNED_SECONDS)
            put_url = await self._store.presign_put(upload_id, seconds=seconds)
        return models.Upload.model_construct(
            upload_id=upload_id,
            session_id=upload.session_id,
            name=upload.name,
            workspace_id=upload.workspace_id,
            status=upload.state,
            chunk_subject=upload_subject(sender.tenant, sender.agent, upload.member, upload_id),
            chunk_bytes=upload.chunk_bytes,
            next_chunk=next_chunk,
            expires_at=time_from_microseconds(upload.expires_at),
            stored=stored is not None,
            put_url=put_url,
            artifact=None,
        )

    async def chunk(self, request: RawRequest) -> RawAnswer:
        sender, upload_id = parse_upload_subject(request.subject)
        index = chunk_index(request)
        return await self._open_uploads.chunk(sender.tenant, sender.agent, upload_id, index, request)

    async def abort(self, call: Call, body: requests.AbortUpload) -> UploadAborted:
        upload_id = body.upload_id
        until = self._open_uploads.deadline()
        outcome = await self._ledger.commit(
            call.write(UPLOAD, upload_id, lambda heads, now: abort_upload(heads, upload_id, now, kept_until=until))
        )
        if outcome.record is not None:
            await self._commits.discard(upload_id)
        return UploadAborted.model_construct(upload_id=upload_id, aborted=outcome.record is not None)
