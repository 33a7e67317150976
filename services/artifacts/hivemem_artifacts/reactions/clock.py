"""What time does: uploads that nobody goes on with vanish, interrupted deletions go on, unused bytes are collected."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

import structlog

from hivemem_artifacts.decisions.uploading import expire_upload
from hivemem_artifacts.endpoints.chunks import Holding
from hivemem_artifacts.endpoints.collecting import COLLECTOR, Collecting, collect_everywhere
from hivemem_artifacts.endpoints.deleting import Deleting
from hivemem_artifacts.entities.deletions import DELETION
from hivemem_artifacts.entities.uploads import UPLOAD, Upload
from hivemem_artifacts.ports import BlobStore
from hivemem_artifacts.reactions.views import Views
from hivemem_contracts.errors import HiveError, RevisionConflict
from hivemem_runtime.bus.connection import Client
from hivemem_runtime.erasing import Announcements, erase_announced
from hivemem_runtime.ledger.port import Head, Ledger, Write
from hivemem_runtime.loops import Loop

log = structlog.get_logger("hivemem.artifacts")

TICK_SECONDS: Final = 5.0
REST: Final = 20
"""It rests at least so many times as long as it worked: many tenants take a while."""

DELETION_LEFT_SECONDS: Final = 30
"""A deletion that took so long was left behind by its worker."""

AT_ONCE: Final = 100


class Clock:
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
        self.loop = Loop("artifacts-clock", self._run)

    async def start(self, client: Client) -> None:
        del client
        self.loop.start()

    async def stop(self) -> None:
        await self.loop.stop()

    async def _run(self) -> None:
        await self._try("views", self._views.show_recent)
        while not self.loop.stopping.is_set():
            started = time.monotonic()
            await self.tick()
            rest = REST * (time.monotonic() - started)
            await asyncio.sleep(max(rest, min(TICK_SECONDS, self._upload_seconds / 4)))

    async def tick(self) -> None:
        await self._try("held uploads", self._holding.rest)
        await self._try("abandoned uploads", self.expire)
        await self._try("interrupted deletions", self.go_on)
        if time.monotonic() - self._collected >= self._gc_seconds:
            self._collected = time.monotonic()
            await self._try("stagings", self.sweep)
            await self._try("unused bytes", self.collect)

    async def _try(self, what: str, step: Callable[[], Awaitable[None]]) -> None:
        try:
            await step()
        except HiveError as error:
            log.warning("put off", what=what, error=str(error))
        except Exception:
            log.exception("failed", what=what)

    async def expire(self) -> None:
        """Uploads past their time: what was sent is removed, and so is what has ended and was kept for a while."""
        now = time.time_ns() // 1_000
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
                Write(
                    tenant,
                    COLLECTOR,
                    UPLOAD,
                    upload_id,
                    lambda heads, now: expire_upload(heads, upload_id, now, kept_until=now),
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
                actor=COLLECTOR,
                cause=None,
                version=version,
            )

    async def go_on(self) -> None:
        """Deletions whose worker ended in the middle."""
        before = time.time_ns() // 1_000 - DELETION_LEFT_SECONDS * 1_000_000
        for tenant in await self._ledger.tenants(DELETION):
            page = await self._ledger.find(DELETION, tenant, "running", equals={}, high=before, limit=AT_ONCE)
            for head in page.items:
                if head.value is not None:
                    await self._deleting.finish(tenant, head.id, head.value)

    async def sweep(self) -> None:
        """What is staged and so old that its upload is over, whoever's it was. Each chunk puts the end of an open one
        off, once half of its time has passed."""
        before = time.time_ns() // 1_000 - 2 * self._upload_seconds * 1_000_000
        async for staging in self._store.stagings():
            if staging.modified_at < before:
                await self._store.discard(staging.upload_id)

    async def collect(self) -> None:
        before = time.time_ns() // 1_000 - self._gc_seconds * 1_000_000
        tally = await collect_everywhere(self._collecting, self._ledger, self._store, before)
        if tally.removed:
            log.info("unused bytes collected", blobs=tally.removed, bytes=tally.bytes)
