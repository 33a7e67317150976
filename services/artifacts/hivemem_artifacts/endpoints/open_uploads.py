"""The uploads that are open on this worker, with their staging and their chunk window."""

import asyncio
import time
from typing import Final

from hivemem_artifacts.decisions.uploads import hold_upload, upload_not_found
from hivemem_artifacts.endpoints.chunk_window import OpenUpload, check_crc32
from hivemem_artifacts.entities.uploads import UPLOAD, Upload
from hivemem_artifacts.ports import BlobStore
from hivemem_contracts.errors import Overloaded, Unavailable
from hivemem_runtime.bus.requests.raw_subjects import RawAnswer, RawRequest
from hivemem_runtime.clock import now_microseconds
from hivemem_runtime.ledger.port import Ledger, Write, value_of

OPEN_UPLOADS: Final = 256
"""The maximum number of open uploads per worker. The one idle for longest is closed first."""

IDLE_SECONDS: Final = 60.0
"""How long an upload may be idle before it is closed. The next chunk opens it again."""


class OpenUploads:
    """The uploads open on this worker, by id."""

    def __init__(self, ledger: Ledger, store: BlobStore, member: str, *, largest: int, upload_seconds: int) -> None:
        self.member = member
        self._ledger = ledger
        self._store = store
        self._largest = largest
        self._lifetime = upload_seconds * 1_000_000
        self.opened: dict[str, OpenUpload] = {}
        self._opening: dict[str, asyncio.Lock] = {}

    def deadline(self) -> int:
        """Return the expiry time of an upload with activity now."""
        return now_microseconds() + self._lifetime

    async def chunk(self, tenant: str, agent: str, upload_id: str, index: int, request: RawRequest) -> RawAnswer:
        check_crc32(request)
        opened = await self.open_here(tenant, upload_id)
        try:
            answer = await opened.accept(index, request.data)
        except Unavailable:
            await self.close_unless_usable(opened)
            raise
        if opened.upload.expires_at - now_microseconds() < self._lifetime // 2:
            opened.upload = await self.extend(tenant, agent, upload_id)
        return answer

    async def extend(self, tenant: str, agent: str, upload_id: str) -> Upload:
        """Record this worker as the holder, and extend the expiry. Raises `Committed` for a committed upload."""
        until = self.deadline()
        outcome = await self._ledger.commit(
            Write(
                tenant,
                agent,
                UPLOAD,
                upload_id,
                lambda heads, now: hold_upload(heads, upload_id, self.member, until, now),
            )
        )
        upload: Upload = outcome.record
        return upload

    async def open_here(self, tenant: str, upload_id: str) -> OpenUpload:
        """Return the upload with its staging. If it is not open here, its staged bytes are read once to hash them."""
        opened = self.opened.get(upload_id)
        if opened is not None and opened.tenant == tenant:
            return opened
        head = await self._ledger.head(UPLOAD, tenant, upload_id)
        upload = value_of(head)
        if upload is None or not upload.open or upload.presigned:
            raise upload_not_found(upload_id)
        if upload.member != self.member:
            raise Unavailable("another worker holds this upload: resume it", resume=True, retry_after_ms=50)
        return await self._open(tenant, upload_id, upload)

    async def take_over(self, tenant: str, agent: str, upload_id: str) -> OpenUpload:
        """Open an upload, whichever worker holds it."""
        upload = await self.extend(tenant, agent, upload_id)
        opened = self.opened.get(upload_id)
        if opened is not None:
            opened.upload, opened.used = upload, time.monotonic()
            return opened
        return await self._open(tenant, upload_id, upload)

    async def _open(self, tenant: str, upload_id: str, upload: Upload) -> OpenUpload:
        lock = self._opening.setdefault(upload_id, asyncio.Lock())
        try:
            async with lock:
                opened = self.opened.get(upload_id)
                if opened is None:
                    await self._make_room()
                    staging = await self._store.open_staging(upload_id)
                    opened = self.opened[upload_id] = OpenUpload(tenant, upload_id, upload, staging, self._largest)
                return opened
        finally:
            if not lock.locked():
                self._opening.pop(upload_id, None)

    async def _make_room(self) -> None:
        if len(self.opened) < OPEN_UPLOADS:
            return
        idle = [opened for opened in self.opened.values() if opened.idle]
        if not idle:
            raise Overloaded(f"{OPEN_UPLOADS} uploads are open", limit=OPEN_UPLOADS, retry_after_ms=500)
        await self.close_upload(min(idle, key=lambda opened: opened.used).upload_id)

    async def close_upload(self, upload_id: str, only: OpenUpload | None = None) -> None:
        """Close an upload, or only that instance of it if `only` is given."""
        opened = self.opened.get(upload_id)
        if opened is not None and only in (None, opened):
            del self.opened[upload_id]
            async with opened.lock:  # a file must not be closed while a thread writes to it
                await opened.staging.close()

    async def discard(self, upload_id: str) -> None:
        """Close an upload and remove its staged bytes."""
        await self.close_upload(upload_id)
        await self._store.discard(upload_id)

    async def close_unless_usable(self, opened: OpenUpload) -> None:
        """Close an upload whose staging failed. The next chunk opens it again, at the durable bytes."""
        if not opened.staging.usable:
            await self.close_upload(opened.upload_id, opened)

    async def close_idle(self) -> None:
        """Close idle uploads."""
        before = time.monotonic() - IDLE_SECONDS
        for opened in [opened for opened in self.opened.values() if opened.used < before and opened.idle]:
            await self.close_upload(opened.upload_id)

    async def close(self) -> None:
        for upload_id in list(self.opened):
            await self.close_upload(upload_id)

    def status(self) -> dict[str, int]:
        return {"uploads": len(self.opened)}
