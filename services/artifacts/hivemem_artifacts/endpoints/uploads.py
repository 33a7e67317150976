"""Uploads: begun, resumed, committed, given up. The worker that has the bytes in hand commits them."""

from collections.abc import Awaitable, Callable
from typing import Final

from hivemem_artifacts.decisions.saving import Bytes, BytesGone
from hivemem_artifacts.decisions.uploading import (
    Committed,
    abort_upload,
    begin_upload,
    commit_upload,
    upload_not_found,
)
from hivemem_artifacts.endpoints.chunks import Held, Holding
from hivemem_artifacts.endpoints.content_types import SNIFFED_BYTES, content_type_of
from hivemem_artifacts.endpoints.keeping import Keeping, Put
from hivemem_artifacts.endpoints.reading import artifact_model, chunk_index, find_version, version_of
from hivemem_artifacts.endpoints.saving import require_hash
from hivemem_artifacts.entities.artifacts import ARTIFACT, require_announceable
from hivemem_artifacts.entities.places import place_of
from hivemem_artifacts.entities.uploads import UPLOAD, Upload
from hivemem_artifacts.ports import Staging
from hivemem_contracts.artifacts import models, operations, requests
from hivemem_contracts.artifacts.chunks import parse_upload_subject, upload_subject
from hivemem_contracts.artifacts.models import Artifact
from hivemem_contracts.artifacts.replies import UploadAborted
from hivemem_contracts.errors import HiveError, InvalidRequest, NotFound, Unavailable
from hivemem_contracts.identifiers import derived_id, new_id, time_from_microseconds
from hivemem_contracts.limits import ARTIFACT_CHUNK_BYTES
from hivemem_contracts.model import decode_body
from hivemem_contracts.sizes import check_size
from hivemem_contracts.streams import MESSAGE_ID
from hivemem_contracts.subjects import Sender
from hivemem_runtime.bus.connection import Client
from hivemem_runtime.bus.raw import NobodyListens, RawAnswer, RawRequest, ask
from hivemem_runtime.ledger.port import Ledger, Outcome, value_of
from hivemem_runtime.service import Call, Service, body_digest, require_unused

COMMIT_HEADER: Final = "Hive-Commit"
"""On the subject of an upload, from another worker: the body is that of a commit, the answer is its artifact."""

FORWARD_SECONDS: Final = 60.0
PRESIGNED_SECONDS: Final = 604_800
"""A store signs for a week at most."""

_EMPTY: Final = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


class Uploading:
    """The operations of uploads, and the raw subject that chunks come on."""

    def __init__(
        self, ledger: Ledger, keeping: Keeping, holding: Holding, *, largest: int, upload_seconds: int
    ) -> None:
        self._ledger = ledger
        self._keeping = keeping
        self._store = keeping.store
        self._holding = holding
        self.chunk_bytes = ARTIFACT_CHUNK_BYTES
        """What the server passes is known once the worker is connected."""
        self._largest = largest
        self._upload_seconds = upload_seconds
        self.client: Client | None = None
        """Of the worker, once it is connected: a commit goes to whoever has the bytes."""

    def bind(self, service: Service) -> None:
        service.handler(operations.BEGIN, self.begin)
        service.handler(operations.RESUME, self.resume)
        service.handler(operations.COMMIT, self.commit)
        service.handler(operations.ABORT, self.abort)

    async def begin(self, call: Call, body: requests.BeginUpload) -> models.Upload:
        sender = call.sender
        if body.size is not None:
            check_size("size", body.size, self._largest)
        if body.presigned:
            self._check_presigned(body)
        require_announceable(sender.tenant, body.session_id, body.name)
        upload_id = derived_id("upload", sender.tenant, call.request_name)
        until = self._holding.deadline()
        upload = Upload(
            body.session_id,
            body.name,
            until - self._upload_seconds * 1_000_000,
            until,
            self.chunk_bytes,
            self._holding.member,
            body.size,
            body.sha256,
            body.content_type,
            body.metadata,
            body.presigned,
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
            raise InvalidRequest("size: a presigned upload says how large it is", field="size")

    async def resume(self, call: Call, body: requests.ResumeUpload) -> models.Upload:
        await require_unused(self._ledger, call, UPLOAD, body.upload_id)
        upload = await self._resumed(call.sender, body.upload_id)
        await self._ledger.commit(call.note(UPLOAD, body.upload_id))
        return upload

    async def _resumed(self, sender: Sender, upload_id: str) -> models.Upload:
        try:
            head = await self._ledger.head(UPLOAD, sender.tenant, upload_id)
            if head is not None and head.value is not None and head.value.presigned:
                upload = await self._holding.extend(sender.tenant, sender.agent, upload_id)
                return await self._view(sender, upload_id, upload, next_chunk=0)
            held = await self._holding.take_over(sender.tenant, sender.agent, upload_id)
            return await self._view(sender, upload_id, held.upload, next_chunk=held.next_chunk)
        except Committed:
            upload = await self._upload(sender.tenant, upload_id)
            artifact = await self._became(sender.tenant, upload_id, upload)
            view = await self._view(sender, upload_id, upload, next_chunk=0)
            return view.model_copy(update={"artifact": artifact})

    async def _view(self, sender: Sender, upload_id: str, upload: Upload, *, next_chunk: int) -> models.Upload:
        stored = await self._there(sender.tenant, upload.sha256, upload.size) if upload.open else None
        put_url = None
        if upload.open and upload.presigned:
            seconds = min(self._upload_seconds, PRESIGNED_SECONDS)
            put_url = await self._store.presign_put(upload_id, seconds=seconds)
        return models.Upload.model_construct(
            upload_id=upload_id,
            session_id=upload.session_id,
            name=upload.name,
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
        if COMMIT_HEADER in request.headers:
            body = decode_body(requests.CommitUpload, request.data)
            message_id = request.headers.get(MESSAGE_ID) or new_id()
            call = Call(sender, operations.COMMIT, message_id, digest=body_digest(body))
            artifact = await self._commit_here(call, body, take_over=False)
            return RawAnswer(data=artifact.model_dump_json().encode())
        index = chunk_index(request)
        return await self._holding.chunk(sender.tenant, sender.agent, upload_id, index, request)

    async def commit(self, call: Call, body: requests.CommitUpload) -> Artifact:
        await require_unused(self._ledger, call, UPLOAD, body.upload_id)
        upload = await self._upload(call.sender.tenant, body.upload_id)
        if not upload.open:
            await self._ledger.commit(call.note(UPLOAD, body.upload_id))
            return await self._became(call.sender.tenant, body.upload_id, upload)
        if upload.presigned or upload.member == self._holding.member:
            return await self._commit_here(call, body, take_over=False)
        try:
            return await self._forward(call, body, upload.member)
        except NobodyListens:
            return await self._commit_here(call, body, take_over=True)

    async def _upload(self, tenant: str, upload_id: str) -> Upload:
        head = await self._ledger.head(UPLOAD, tenant, upload_id)
        upload = value_of(head)
        if upload is None or upload.state == "aborted":
            raise upload_not_found(upload_id)
        return upload

    async def _became(self, tenant: str, upload_id: str, upload: Upload) -> Artifact:
        place = place_of(upload.session_id, upload.name)
        found = await find_version(self._ledger, tenant, place, upload.version)
        return artifact_model(tenant, place, found)

    async def _forward(self, call: Call, body: requests.CommitUpload, member: str) -> Artifact:
        """To the worker that has the bytes, which need not be read again then."""
        assert self.client is not None, "it was started"
        subject = upload_subject(call.sender.tenant, call.sender.agent, member, body.upload_id)
        headers = {COMMIT_HEADER: "1", MESSAGE_ID: call.message_id}
        data = body.model_dump_json(exclude_unset=True).encode()
        answer = await ask(self.client, call.sender, subject, data, headers, timeout_seconds=FORWARD_SECONDS)
        return Artifact.model_validate_json(answer)

    async def _commit_here(self, call: Call, body: requests.CommitUpload, *, take_over: bool) -> Artifact:
        tenant, agent = call.sender.tenant, call.sender.agent
        try:
            upload = await self._upload(tenant, body.upload_id)
            if upload.open and upload.presigned:
                return await self._commit_presigned(call, body, upload)
            if take_over:
                held = await self._holding.take_over(tenant, agent, body.upload_id)
            elif upload.open:
                held = await self._holding.hold(tenant, body.upload_id)
            else:
                return await self._became(tenant, body.upload_id, upload)
            try:
                async with held.lock:
                    artifact = await self._commit_held(call, body, held)
                await self._end(body.upload_id)
                return artifact
            except Unavailable:
                await self._holding.let_go_unless_usable(held)
                raise
        except Committed:
            upload = await self._upload(tenant, body.upload_id)
            return await self._became(tenant, body.upload_id, upload)

    async def _commit_held(self, call: Call, body: requests.CommitUpload, held: Held) -> Artifact:
        tenant, upload, staging = call.sender.tenant, held.upload, held.staging
        sha256, size = _said(body, upload)
        there = await self._there(tenant, sha256, size) if staging.size == 0 else None
        if sha256 is not None and there is not None:
            return await self._note(call, body.upload_id, upload, sha256, there, None)
        self._check_whole(sha256, size, held)
        put = _sealing(staging, tenant)
        return await self._note(call, body.upload_id, upload, staging.sha256, staging.size, put)

    async def _there(self, tenant: str, sha256: str | None, size: int | None) -> int | None:
        """The size of these bytes, if they need not be sent."""
        if sha256 in (None, _EMPTY):
            return None
        stored = await self._keeping.stored(tenant, sha256)
        return stored if size in (None, stored) else None

    def _check_whole(self, sha256: str | None, size: int | None, held: Held) -> None:
        staging = held.staging
        if size is not None and staging.size != size:
            raise InvalidRequest(
                f"size: {staging.size} of {size} bytes are there", field="size", expected=held.next_chunk
            )
        if not staging.size and sha256 not in (None, _EMPTY):
            raise InvalidRequest("size: nothing is there yet", field="size", expected=0)
        require_hash(sha256, staging.sha256)

    async def _commit_presigned(self, call: Call, body: requests.CommitUpload, upload: Upload) -> Artifact:
        sha256, size = _said(body, upload)
        if sha256 is None:
            raise InvalidRequest("sha256: a presigned upload is committed with it", field="sha256")
        assert size is not None, "it was said at the beginning"
        try:
            staging = await self._store.open_presigned(body.upload_id, size)
        except NotFound as error:
            raise InvalidRequest("put_url: nothing was put there", field="put_url") from error
        try:
            require_hash(sha256, staging.sha256)
            put = _sealing(staging, call.sender.tenant)
            artifact = await self._note(call, body.upload_id, upload, staging.sha256, staging.size, put)
        finally:
            await staging.close()
        await self._end(body.upload_id)
        return artifact

    async def _note(
        self, call: Call, upload_id: str, upload: Upload, sha256: str, size: int, put: Put | None
    ) -> Artifact:
        tenant, place = call.sender.tenant, place_of(upload.session_id, upload.name)

        async def note(found: Bytes) -> Outcome:
            start = await self._store.read(tenant, found.blob, 0, min(SNIFFED_BYTES, size)) if size else b""
            content_type = content_type_of(start, upload.name, upload.content_type)
            until = self._holding.deadline()
            return await self._ledger.commit(
                call.write(
                    ARTIFACT,
                    place,
                    lambda heads, now: commit_upload(heads, upload_id, found, content_type, now, kept_until=until),
                )
            )

        try:
            outcome = await self._keeping.keep(tenant, sha256, size, put, note)
        except BytesGone as error:
            raise InvalidRequest(
                "size: these bytes are not there any more, send them", field="size", expected=0
            ) from error
        assert outcome.stamp is not None, "a commit appends"
        return artifact_model(tenant, place, version_of(outcome.record, outcome.stamp))

    async def _end(self, upload_id: str) -> None:
        """What is staged is not needed any more. Where it cannot be removed now, the clock comes by later."""
        await self._holding.let_go(upload_id)
        try:
            await self._store.discard(upload_id)
        except HiveError:
            return

    async def abort(self, call: Call, body: requests.AbortUpload) -> UploadAborted:
        upload_id = body.upload_id
        until = self._holding.deadline()
        outcome = await self._ledger.commit(
            call.write(UPLOAD, upload_id, lambda heads, now: abort_upload(heads, upload_id, now, kept_until=until))
        )
        if outcome.record is not None:
            await self._end(upload_id)
        return UploadAborted.model_construct(upload_id=upload_id, aborted=outcome.record is not None)


def _said(body: requests.CommitUpload, upload: Upload) -> tuple[str | None, int | None]:
    """The hash and the size that the bytes must have, of what was said at the beginning and at the end."""
    if body.sha256 is not None and upload.sha256 not in (None, body.sha256):
        raise InvalidRequest(f"sha256: {upload.sha256} was said at the beginning", field="sha256")
    if body.size is not None and upload.size not in (None, body.size):
        raise InvalidRequest(f"size: {upload.size} was said at the beginning", field="size")
    return body.sha256 or upload.sha256, upload.size if body.size is None else body.size


def _sealing(staging: Staging, tenant: str) -> Callable[[str], Awaitable[None]]:
    async def seal(blob: str) -> None:
        await staging.seal(tenant, blob)

    return seal
