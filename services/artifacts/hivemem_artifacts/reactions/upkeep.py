"""The worker's timer. It expires uploads, resumes interrupted deletions, and collects values and garbage."""

import time
from contextlib import suppress
from typing import Final

import structlog

from hivemem_artifacts.decisions.uploads import expire_upload
from hivemem_artifacts.endpoints.deletions import ArtifactDeleter
from hivemem_artifacts.endpoints.garbage_collection import GarbageCollector
from hivemem_artifacts.endpoints.open_uploads import OpenUploads
from hivemem_artifacts.endpoints.workspace_deletions import WorkspaceDeleter
from hivemem_artifacts.entities.deletions import DELETION, WORKSPACE_DELETION
from hivemem_artifacts.entities.uploads import UPLOAD, Upload
from hivemem_artifacts.ports import BlobStore
from hivemem_artifacts.reactions.kept_values import ForkedValues
from hivemem_artifacts.reactions.views import SessionViews
from hivemem_contracts.errors import HiveError, RevisionConflict, Unavailable
from hivemem_runtime.background import Timer
from hivemem_runtime.clock import now_microseconds
from hivemem_runtime.erasing import Announcements, erase_announced
from hivemem_runtime.ledger.port import SYSTEM, Head, Ledger, system_write

log = structlog.get_logger("hivemem.artifacts")

TICK_SECONDS: Final = 5.0
REST_FACTOR: Final = 20.0
LONGEST_REST_SECONDS: Final = 3_600.0
"""The longest rest between two rounds. A search for abandoned uploads of many tenants is slow, and nobody depends on
it."""

DELETION_LEFT_SECONDS: Final = 30
"""A running deletion of this age was abandoned by its worker."""

AT_ONCE: Final = 100


class Upkeep(Timer):
    """The timer of one worker. Several workers may run it at once, because each step is a decision or harmless when
    repeated."""

    def __init__(
        self,
        ledger: Ledger,
        store: BlobStore,
        announcements: Announcements,
        open_uploads: OpenUploads,
        deleter: ArtifactDeleter,
        workspace_deleter: WorkspaceDeleter,
        collector: GarbageCollector,
        views: SessionViews,
        forked_values: ForkedValues,
        *,
        upload_seconds: int,
        gc_seconds: int,
    ) -> None:
        self._ledger = ledger
        self._store = store
        self._announcements = announcements
        self._open_uploads = open_uploads
        self._deleter = deleter
        self._workspace_deleter = workspace_deleter
        self._collector = collector
        self._views = views
        self._forked_values = forked_values
        self._upload_seconds = upload_seconds
        self._gc_seconds = gc_seconds
        self._collected = time.monotonic()
        steps = (self.close_idle_uploads, self.expire, self.resume_deletions, self.collect_all)
        seconds = min(TICK_SECONDS, upload_seconds / 4)
        super().__init__(
            "artifacts-upkeep", steps, seconds, rest_factor=REST_FACTOR, longest_rest_seconds=LONGEST_REST_SECONDS
        )

    async def run(self) -> None:
        try:
            await self._views.show_recent()
        except HiveError as error:
            log.warning("update of recent views postponed", error=str(error))
        await super().run()

    async def close_idle_uploads(self) -> None:
        """Close idle uploads."""
        await self._open_uploads.close_idle()

    async def collect_all(self) -> None:
        """Collect garbage at the configured interval."""
        if time.monotonic() - self._collected >= self._gc_seconds:
            self._collected = time.monotonic()
            with suppress(Unavailable):  # no sessions worker answers: at the next interval
                await self._forked_values.release_all()
            await self.sweep()
            await self.collect()

    async def expire(self) -> None:
        """Abort expired uploads and remove their staged bytes, and erase ended uploads after their retention."""
        now = now_microseconds()
        for tenant in await self._ledger.tenants(UPLOAD):
            page = await self._ledger.find(UPLOAD, tenant, "expiry", equals={}, high=now, limit=AT_ONCE)
            for head in page.items:
                await self._expire(tenant, head)

    async def _expire(self, tenant: str, head: Head[Upload]) -> None:
        upload, upload_id, version = head.value, head.id, head.version
        if upload is None:
            return
        if upload.open:
            ended = await self._ledger.commit(
                system_write(
                    tenant, UPLOAD, upload_id, lambda heads, now: expire_upload(heads, upload_id, now, kept_until=now)
                )
            )
            if ended.stamp is None:
                return
            version = ended.stamp.version
        await self._open_uploads.discard(upload_id)
        with suppress(RevisionConflict):  # another worker has erased it
            await erase_announced(
                self._ledger,
                self._announcements,
                UPLOAD,
                tenant,
                upload_id,
                actor=SYSTEM,
                cause=None,
                version=version,
            )

    async def resume_deletions(self) -> None:
        """Resume deletions whose worker ended before they were done."""
        before = now_microseconds() - DELETION_LEFT_SECONDS * 1_000_000
        for entity, deleter in ((DELETION, self._deleter), (WORKSPACE_DELETION, self._workspace_deleter)):
            for tenant in await self._ledger.tenants(entity):
                page = await self._ledger.find(entity, tenant, "running", equals={}, high=before, limit=AT_ONCE)
                for head in page.items:
                    if head.value is not None:
                        await deleter.finish(tenant, head.id, head.value)

    async def sweep(self) -> None:
        """Discard staged data so old that its upload has ended. Chunks extend an open upload after half of its
        lifetime."""
        before = now_microseconds() - 2 * self._upload_seconds * 1_000_000
        async for staging in self._store.stagings():
            if staging.modified_at < before:
                await self._store.discard(staging.upload_id)

    async def collect(self) -> None:
        before = now_microseconds() - self._gc_seconds * 1_000_000
        run = await self._collector.collect_all(before)
        if run.removed:
            log.info("garbage collected", blobs=run.removed, bytes=run.bytes)
