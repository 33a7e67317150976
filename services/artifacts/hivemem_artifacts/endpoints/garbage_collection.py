"""Garbage collection of unreferenced bytes, by request and by the timer."""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Final

from hivemem_artifacts.decisions.garbage_collection import begin_collection, collectable, end_collection, fence_off
from hivemem_artifacts.endpoints.workspace_listings import Listings
from hivemem_artifacts.entities.blobs import BLOB, Blob, blob_name, sha256_and_life
from hivemem_artifacts.entities.listings import LISTING
from hivemem_artifacts.ports import BlobStore, StoredBlob
from hivemem_contracts.artifacts import operations, requests
from hivemem_contracts.artifacts.replies import GarbageCollected
from hivemem_runtime.clock import now_microseconds
from hivemem_runtime.ledger.pages import pages
from hivemem_runtime.ledger.port import SYSTEM, Decide, Head, Ledger, Outcome, system_write, value_of
from hivemem_runtime.service import Call, Service

PAGE: Final = 200
BUDGET_SECONDS: Final = 3.0
"""How long one request collects."""


@dataclass(slots=True)
class GarbageRun:
    """One garbage collection: its actor and limits, and what it removed and kept."""

    actor: str
    before: int
    until: float | None = None
    dry_run: bool = False
    removed: int = 0
    bytes: int = 0
    kept: int = 0
    done: bool = True

    def count(self, size: int) -> None:
        self.removed += 1
        self.bytes += size

    def is_over(self) -> bool:
        """Return whether the time limit was reached. The run is then incomplete."""
        self.done = self.done and (self.until is None or time.monotonic() <= self.until)
        return not self.done


def bind(service: Service, collector: "GarbageCollector") -> None:
    service.handler(operations.GC, collector.gc)


class GarbageCollector:
    """Collects garbage in three steps: make the blob unusable, remove its bytes, record the removal. The next
    collection resumes after a crash."""

    def __init__(self, ledger: Ledger, store: BlobStore, listings: Listings, grace_seconds: int) -> None:
        self._ledger = ledger
        self._store = store
        self._listings = listings
        self._grace_seconds = grace_seconds

    async def gc(self, call: Call, body: requests.CollectGarbage) -> GarbageCollected:
        await self._ledger.commit(call.note(BLOB, SYSTEM))
        tenant, grace = call.sender.tenant, self._grace_seconds if body.grace_seconds is None else body.grace_seconds
        before = now_microseconds() - grace * 1_000_000
        run = GarbageRun(call.sender.agent, before, time.monotonic() + BUDGET_SECONDS, body.dry_run)
        await self._collect(tenant, run)
        if run.done:
            await self._collect_strays((stored async for stored in self._store.blobs() if stored.tenant == tenant), run)
        return GarbageCollected.model_construct(
            dry_run=run.dry_run, removed=run.removed, bytes=run.bytes, kept=run.kept, done=run.done
        )

    async def collect_all(self, before: int) -> GarbageRun:
        """Collect the garbage of all tenants, without a time limit."""
        run = GarbageRun(SYSTEM, before)
        for tenant in await self._ledger.tenants(BLOB):
            await self._collect(tenant, run)
            await asyncio.sleep(0)
        await self._collect_strays(self._store.blobs(), run)
        return run

    async def _collect(self, tenant: str, run: GarbageRun) -> None:
        """Collect blobs that have been unreferenced since before a moment. Listings release theirs first."""
        await self._release_listings(tenant, run)
        async for heads in pages(
            lambda cursor: self._ledger.find(
                BLOB, tenant, "unreferenced", equals={}, high=run.before, cursor=cursor, limit=PAGE
            )
        ):
            for head in heads:
                if run.is_over():
                    return
                await self._collect_one(tenant, head, run)
        run.kept += await self._ledger.count(BLOB, tenant, "unreferenced", equals={}, low=run.before)

    async def _release_listings(self, tenant: str, run: GarbageRun) -> None:
        async for heads in pages(
            lambda cursor: self._ledger.find(
                LISTING, tenant, "unreferenced", equals={}, high=run.before, cursor=cursor, limit=PAGE
            )
        ):
            for head in heads:
                if run.dry_run or run.is_over():
                    return
                await self._listings.release(tenant, head.id, actor=run.actor, before=run.before)

    async def _collect_one(self, tenant: str, head: Head[Blob], run: GarbageRun) -> None:
        sha256, blob = head.id, head.value
        if blob is None or not collectable(blob, run.before):
            return
        if not run.dry_run:
            if blob.state == "present":
                begun = await self._commit(
                    tenant, run, sha256, lambda heads, now: begin_collection(heads, sha256, run.before)
                )
                if begun.record is None:
                    return  # it is referenced again, or another worker collects it
            await self._store.delete(tenant, blob_name(sha256, blob.life))
            await self._commit(tenant, run, sha256, lambda heads, now: end_collection(heads, sha256, blob.life))
        run.count(blob.size)

    async def _collect_strays(self, found: AsyncIterator[StoredBlob], run: GarbageRun) -> None:
        """Remove stray bytes in the store, which a crash left without a record in the ledger."""
        async for page in _grouped(found):
            for stored in await self._unknown(page):
                if run.is_over():
                    return
                if stored.modified_at >= run.before:
                    run.kept += 1
                    continue
                if not run.dry_run:
                    await self._remove_stray(stored, run)
                run.count(stored.size)

    async def _unknown(self, page: Sequence[StoredBlob]) -> list[StoredBlob]:
        """Return the stored blobs that the ledger does not know in this life."""
        unknown: list[StoredBlob] = []
        for tenant in dict.fromkeys(stored.tenant for stored in page):
            own = [stored for stored in page if stored.tenant == tenant]
            heads = await self._ledger.heads(BLOB, tenant, list({sha256_and_life(stored.blob)[0] for stored in own}))
            unknown += [stored for stored in own if _is_stray(stored, heads.get(sha256_and_life(stored.blob)[0]))]
        return unknown

    async def _remove_stray(self, stored: StoredBlob, run: GarbageRun) -> None:
        sha256, life = sha256_and_life(stored.blob)
        await self._commit(stored.tenant, run, sha256, lambda heads, now: fence_off(heads, sha256, life, stored.size))
        if _is_stray(stored, await self._ledger.head(BLOB, stored.tenant, sha256)):
            await self._store.delete(stored.tenant, stored.blob)

    async def _commit(self, tenant: str, run: GarbageRun, sha256: str, decide: Decide) -> Outcome:
        return await self._ledger.commit(system_write(tenant, BLOB, sha256, decide, actor=run.actor))


def _is_stray(stored: StoredBlob, head: Head[Blob] | None) -> bool:
    blob = value_of(head)
    return blob is None or blob.state == "absent" or blob.life != sha256_and_life(stored.blob)[1]


async def _grouped(found: AsyncIterator[StoredBlob]) -> AsyncIterator[list[StoredBlob]]:
    page: list[StoredBlob] = []
    async for stored in found:
        page.append(stored)
        if len(page) == PAGE:
            yield page
            page = []
    if page:
        yield page
