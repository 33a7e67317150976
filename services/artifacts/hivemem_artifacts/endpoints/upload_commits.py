"""The operation that commits an upload. The worker that holds the upload commits it; other workers forward to it."""

from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Final

from hivemem_artifacts.decisions.saves import BlobLookup, BytesGone
from hivemem_artifacts.decisions.uploads import Committed, commit_upload, commit_workspace_upload, upload_not_found
from hivemem_artifacts.endpoints.blob_references import BlobReferences, Put
from hivemem_artifacts.endpoints.chunk_window import OpenUpload
from hivemem_artifacts.endpoints.content_types import SNIFFED_BYTES, UNKNOWN, content_type_of
from hivemem_artifacts.endpoints.open_uploads import OpenUploads
from hivemem_artifacts.endpoints.reads import artifact_model, find_version, version_of
from hivemem_artifacts.endpoints.saves import require_hash
from hivemem_artifacts.entities.artifacts import ARTIFACT
from hivemem_artifacts.entities.places import place_of
from hivemem_artifacts.entities.uploads import UPLOAD, Upload
from hivemem_contracts.artifacts import operations, requests
from hivemem_contracts.artifacts.chunks import commit_subject, parse_upload_subject
from hivemem_contracts.artifacts.models import Artifact
from hivemem_contracts.errors import HiveError, InvalidRequest, NotFound, Unavailable
from hivemem_contracts.identifiers import new_id, time_from_microseconds
from hivemem_contracts.model import decode_body
from hivemem_contracts.streams import MESSAGE_ID
from hivemem_contracts.subjects import Sender
from hivemem_runtime.bus.connection import Client
from hivemem_runtime.bus.requests.raw_subjects import NobodyListens, RawAnswer, RawRequest, ask
from hivemem_runtime.ledger.port import Ledger, Outcome, value_of
from hivemem_runtime.service import Call, Service, body_digest, earlier_outcome

FORWARD_SECONDS: Final = 60.0

_EMPTY: Final = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


def bind(service: Service, commits: "UploadCommits") -> None:
    service.handler(operations.COMMIT, commits.commit)


async def find_upload(ledger: Ledger, tenant: str, upload_id: str) -> Upload:
    """Return an upload unless it was aborted. Raises `NotFound`."""
    upload = value_of(await ledger.head(UPLOAD, tenant, upload_id))
    if upload is None or upload.state == "aborted":
        raise upload_not_found(upload_id)
    return upload


async def committed_artifact(ledger: Ledger, sender: Sender, upload_id: str, upload: Upload) -> Artifact:
    """Return the artifact of a committed upload."""
    if upload.workspace_id is not None:
        return _workspace_artifact(sender, upload_id, upload)
    tenant, place = sender.tenant, place_of(upload.session_id, upload.name)
    return artifact_model(tenant, place, await find_version(ledger, tenant, place, upload.version))


class UploadCommits:
    """The operation `commit`, and commits that other workers forward."""

    def __init__(self, ledger: Ledger, references: BlobReferences, open_uploads: OpenUploads) -> None:
        self._ledger = ledger
        self._references = references
        self._store = references.store
        self._open_uploads = open_uploads
        self.client: Client | None = None
        """The worker's connection, for forwarding a commit to the holder of the upload."""

    async def commit(self, call: Call, body: requests.CommitUpload) -> Artifact:
        await earlier_outcome(self._ledger, call, UPLOAD, body.upload_id)
        upload = await find_upload(self._ledger, call.sender.tenant, body.upload_id)
        if not upload.open:
            await self._ledger.commit(call.note(UPLOAD, body.upload_id))
            return await committed_artifact(self._ledger, call.sender, body.upload_id, upload)
        if upload.presigned or upload.member == self._open_uploads.member:
            return await self._commit_here(call, body, take_over=False)
        try:
            return await self._forward(call, body, upload.member)
        except NobodyListens:
            return await self._commit_here(call, body, take_over=True)

    async def _forward(self, call: Call, body: requests.CommitUpload, member: str) -> Artifact:
        """Forward a commit to the worker that holds the upload, so that the bytes are not read again."""
        assert self.client is not None, "it was started"
        subject = commit_subject(call.sender.tenant, call.sender.agent, member, body.upload_id)
        data = body.model_dump_json(exclude_unset=True).encode()
        answer = await ask(
            self.client, call.sender, subject, data, {MESSAGE_ID: call.message_id}, timeout_seconds=FORWARD_SECONDS
        )
        return Artifact.model_validate_json(answer)

    async def answer_forwarded(self, request: RawRequest) -> RawAnswer:
        """Commit an upload that this worker holds, for the worker that got the request."""
        body = decode_body(requests.CommitUpload, request.data)
        if body.upload_id != parse_upload_subject(request.subject)[1]:
            raise InvalidRequest("upload_id: the subject names another upload", field="upload_id")
        message_id = request.headers.get(MESSAGE_ID) or new_id()
        call = replace(request.call, message_id=message_id, digest=body_digest(body), body=body)
        artifact = await self._commit_here(call, body, take_over=False)
        return RawAnswer(data=artifact.model_dump_json().encode())

    async def _commit_here(self, call: Call, body: requests.CommitUpload, *, take_over: bool) -> Artifact:
        tenant, agent = call.sender.tenant, call.sender.agent
        try:
            upload = await find_upload(self._ledger, tenant, body.upload_id)
            if upload.open and upload.presigned:
                return await self._commit_presigned(call, body, upload)
            if take_over:
                opened = await self._open_uploads.take_over(tenant, agent, body.upload_id)
            elif upload.open:
                opened = await self._open_uploads.open_here(tenant, body.upload_id)
            else:
                return await committed_artifact(self._ledger, call.sender, body.upload_id, upload)
            try:
                async with opened.lock:
                    artifact = await self._commit_open(call, body, opened)
                await self.discard(body.upload_id)
                return artifact
            except Unavailable:
                await self._open_uploads.close_unless_usable(opened)
                raise
        except Committed:
            upload = await find_upload(self._ledger, tenant, body.upload_id)
            return await committed_artifact(self._ledger, call.sender, body.upload_id, upload)

    async def _commit_open(self, call: Call, body: requests.CommitUpload, opened: OpenUpload) -> Artifact:
        tenant, upload, staging = call.sender.tenant, opened.upload, opened.staging
        sha256, size = _said(body, upload)
        there = await self.stored_size(tenant, sha256, size) if staging.size == 0 else None
        if sha256 is not None and there is not None:
            return await self._commit_reference(call, body.upload_id, upload, sha256, there, None)
        self._check_whole(sha256, size, opened)
        put = partial(staging.seal, tenant)
        return await self._commit_reference(call, body.upload_id, upload, staging.sha256, staging.size, put)

    async def discard(self, upload_id: str) -> None:
        """Remove the staged bytes of an ended upload. If that fails now, the timer removes them later."""
        with suppress(HiveError):
            await self._open_uploads.discard(upload_id)

    async def stored_size(self, tenant: str, sha256: str | None, size: int | None) -> int | None:
        """Return the size of these bytes if they are stored and need no upload."""
        if sha256 in (None, _EMPTY):
            return None
        stored = await self._references.stored(tenant, sha256)
        return stored if size in (None, stored) else None

    def _check_whole(self, sha256: str | None, size: int | None, opened: OpenUpload) -> None:
        staging = opened.staging
        if size is not None and staging.size != size:
            raise InvalidRequest(
                f"size: {staging.size} of {size} bytes were received", field="size", expected=opened.whole_chunks
            )
        if not staging.size and sha256 not in (None, _EMPTY):
            raise InvalidRequest("size: no bytes were received yet", field="size", expected=0)
        require_hash(sha256, staging.sha256)

    async def _commit_presigned(self, call: Call, body: requests.CommitUpload, upload: Upload) -> Artifact:
        sha256, size = _said(body, upload)
        if sha256 is None:
            raise InvalidRequest("sha256: required to commit a presigned upload", field="sha256")
        assert size is not None, "it was said at the beginning"
        try:
            staging = await self._store.open_presigned(body.upload_id, size)
        except NotFound as error:
            raise InvalidRequest("put_url: no bytes were put to it", field="put_url") from error
        try:
            require_hash(sha256, staging.sha256)
            put = partial(staging.seal, call.sender.tenant)
            artifact = await self._commit_reference(call, body.upload_id, upload, staging.sha256, staging.size, put)
        finally:
            await staging.close()
        await self.discard(body.upload_id)
        return artifact

    async def _commit_reference(
        self, call: Call, upload_id: str, upload: Upload, sha256: str, size: int, put: Put | None
    ) -> Artifact:
        tenant, place = call.sender.tenant, place_of(upload.session_id, upload.name)

        async def commit(found: BlobLookup) -> Outcome:
            start = await self._store.read(tenant, found.blob, 0, min(SNIFFED_BYTES, size)) if size else b""
            content_type = content_type_of(start, upload.name, upload.content_type)
            until = self._open_uploads.deadline()
            if upload.workspace_id is not None:
                return await self._ledger.commit(
                    call.write(
                        UPLOAD,
                        upload_id,
                        lambda heads, now: commit_workspace_upload(heads, upload_id, found, now, kept_until=until),
                    )
                )
            return await self._ledger.commit(
                call.write(
                    ARTIFACT,
                    place,
                    lambda heads, now: commit_upload(heads, upload_id, found, content_type, now, kept_until=until),
                )
            )

        try:
            outcome = await self._references.keep(tenant, sha256, size, put, commit)
        except BytesGone as error:
            raise InvalidRequest(
                "size: these bytes are no longer stored, send them", field="size", expected=0
            ) from error
        assert outcome.stamp is not None, "a commit appends"
        if upload.workspace_id is not None:
            return _workspace_artifact(call.sender, upload_id, outcome.record)
        return artifact_model(tenant, place, version_of(outcome.record, outcome.stamp))


def _workspace_artifact(sender: Sender, upload_id: str, upload: Upload) -> Artifact:
    """Return the bytes of a workspace in the shape of an artifact, which has no session and no name."""
    return Artifact.model_construct(
        artifact_id=upload_id,
        session_id="",
        name="",
        version=0,
        size=upload.size or 0,
        sha256=upload.sha256 or "",
        content_type=upload.content_type or UNKNOWN,
        metadata=upload.metadata,
        url="",
        created_by=sender.agent,
        created_at=time_from_microseconds(upload.begun_at),
        workspace_id=upload.workspace_id,
    )


def _said(body: requests.CommitUpload, upload: Upload) -> tuple[str | None, int | None]:
    """Return the expected hash and size, from the begin and the commit of the upload."""
    if body.sha256 is not None and upload.sha256 not in (None, body.sha256):
        raise InvalidRequest(f"sha256: the upload began with {upload.sha256}", field="sha256")
    if body.size is not None and upload.size not in (None, body.size):
        raise InvalidRequest(f"size: the upload began with {upload.size}", field="size")
    return body.sha256 or upload.sha256, upload.size if body.size is None else body.size
