"""What time does: uploads that nobody goes on with vanish, interrupted deletions go on, unused bytes are collected."""

import time
from contextlib import suppress
from typing import Final

import structlog

from hivemem_artifacts.decisions.uploading import expire_upload
from hivemem_artifacts.endpoints.chunks import Holding
from hivemem_artifacts.endpoints.collecting import Collecting, collect_everywhere
from hivemem_artifacts.endpoints.deleting import Deleting
from hivemem_artifacts.entities.deletions import DELETION
from hivemem_artifacts.entities.uploads import UPLOAD, Upload
from hivemem_artifacts.ports import BlobStore
from hivemem_artifacts.reactions.views import Views
from hivemem_contracts.errors import HiveError, RevisionConflict
from hivemem_runtime.background import Timer
from hivemem_runtime.clock import now_microseconds
from hivemem_runtime.erasing import Announcements, erase_announced
from hivemem_runtime.ledger.port import SYSTEM, Head, Ledger, system_write

log = structlog.get_logger("hivemem.artifacts")

TICK_SECONDS: Final = 5.0
REST_FACTOR: Final = 20.0
LONGEST_REST_SECONDS: Final = 3_600.0
"""Looking for abandoned uploads of many tenants takes a while, and nobody waits for it."""

DELETION_LEFT_SECONDS: Final = 30
"""A deletion that took so long was left behind by its worker."""

AT_ONCE: Final = 100


class Clock(Timer):
    """Comes by every few seconds. Several workers may do the same at once: a step is a decision, or harmless twice."""

    def __init__(
        self,
        ledger: Ledger,
        store: BlobStore,
        announcements: Announcements,
        holding: Holding,
        deleting: Deleting,
        collecting: Collecting,
        views: Views,
        *,
        upload_seconds: int,
        gc_seconds: int,
    ) -> None:
        self._ledger = ledger
        self._store = store
        self._announcements = announcements
        self._holding = holding
        self._deleting = deleting
        self._collecting = collecting
        self._views = views
        self._upload_seconds = upload_seconds
        self._gc_seconds = gc_seconds
        self._collected = time.monotonic()
        steps = (self.let_go, self.expire, self.go_on, self.collect_all)
        seconds = min(TICK_SECONDS, upload_seconds / 4)
        super().__init__(
            "artifacts-clock", steps, seconds, rest_factor=REST_FACTOR, longest_rest_seconds=LONGEST_REST_SECONDS
        )

    async def run(self) -> None:
        try:
            await self._views.show_recent()
        except HiveError as error:
            log.warning("recent files are not shown yet", error=str(error))
        await super().run()

    async def let_go(self) -> None:
        """Let go of uploads that nothing has come of for a while."""
        await self._holding.rest()

    async def collect_all(self) -> None:
        """Collect unused bytes, now and then."""
        if time.monotonic() - self._collected >= self._gc_seconds:
            self._collected = time.monotonic()
            await self.sweep()
            await self.collect()

    async def expire(self) -> None:
        """Uploads past their time: what was sent is removed, and so is what has ended and was kept for a while."""
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
        await self._holding.let_go(upload_id)
        await self._store.discard(upload_id)
        with suppress(RevisionConflict):  # another worker has just ended it
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

    async def go_on(self) -> None:
        """Deletions whose worker ended in the middle."""
        before = now_microseconds() - DELETION_LEFT_SECONDS * 1_000_000
        for tenant in await self._ledger.tenants(DELETION):
            page = await self._ledger.find(DELETION, tenant, "running", equals={}, high=before, limit=AT_ONCE)
            for head in page.items:
                if head.value is not None:
                    await self._deleting.finish(tenant, head.id, head.value)

    async def sweep(self) -> None:
        """What is staged and so old that its upload is over, whoever's it was. Each chunk puts the end of an open one
        off, once half of its time has passed."""
        before = now_microseconds() - 2 * self._upload_seconds * 1_000_000
        async for staging in self._store.stagings():
            if staging.modified_at < before:
                await self._store.discard(staging.upload_id)

    async def collect(self) -> None:
        before = now_microseconds() - self._gc_seconds * 1_000_000
        tally = await collect_everywhere(self._collecting, self._ledger, self._store, before)
        if tally.removed:
            log.info("unused bytes collected", blobs=tally.removed, bytes=tally.bytes)
