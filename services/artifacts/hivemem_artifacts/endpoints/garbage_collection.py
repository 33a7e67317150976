"""Removing bytes that nothing uses any more, by request and by the clock."""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Final

from hivemem_artifacts.decisions.collecting import begin_collection, collectable, end_collection, fence_off
from hivemem_artifacts.entities.blobs import BLOB, Blob, blob_name, sha256_and_life
from hivemem_artifacts.ports import BlobStore, StoredBlob
from hivemem_contracts.artifacts import operations, requests
from hivemem_contracts.artifacts.replies import GarbageCollected
from hivemem_runtime.clock import now_microseconds
from hivemem_runtime.ledger.pages import pages
from hivemem_runtime.ledger.port import SYSTEM, Decide, Head, Ledger, Outcome, system_write, value_of
from hivemem_runtime.service import Call, Service

PAGE: Final = 200
BUDGET_SECONDS: Final = 3.0
"""How long one request works on it."""


@dataclass(slots=True)
class Tally:
    removed: int = 0
    bytes: int = 0
    kept: int = 0
    done: bool = True


class Collecting:
    """Bytes go in three steps: nobody can come to use them, they are removed, that is noted. A crash between two of
    them leaves something that the next collection goes on with."""

    def __init__(self, ledger: Ledger, store: BlobStore, grace_seconds: int) -> None:
        self._ledger = ledger
        self._store = store
        self._grace_seconds = grace_seconds

    def bind(self, service: Service) -> None:
        service.handler(operations.GC, self.gc)

    async def gc(self, call: Call, body: requests.CollectGarbage) -> GarbageCollected:
        await self._ledger.commit(call.note(BLOB, SYSTEM))
        grace = self._grace_seconds if body.grace_seconds is None else body.grace_seconds
        before = now_microseconds() - grace * 1_000_000
        until = time.monotonic() + BUDGET_SECONDS
        tally = await self.collect(call.sender.tenant, call.sender.agent, before, until=until, dry_run=body.dry_run)
        if tally.done:
            found = self._of_tenant(call.sender.tenant)
            await self.collect_strays(found, call.sender.agent, before, tally, until=until, dry_run=body.dry_run)
        return GarbageCollected.model_construct(
            dry_run=body.dry_run, removed=tally.removed, bytes=tally.bytes, kept=tally.kept, done=tally.done
        )

    async def _of_tenant(self, tenant: str) -> AsyncIterator[StoredBlob]:
        async for stored in self._store.blobs():
            if stored.tenant == tenant:
                yield stored

    async def collect(
        self, tenant: str, actor: str, before: int, *, until: float | None = None, dry_run: bool = False
    ) -> Tally:
        """What lost its last use before a moment."""
        tally = Tally()
        async for heads in pages(
            lambda cursor: self._ledger.find(
                BLOB, tenant, "unreferenced", equals={}, high=before, cursor=cursor, limit=PAGE
            )
        ):
            for head in heads:
                if until is not None and time.monotonic() > until:
                    tally.done = False
                    return tally
                await self._collect_one(tenant, actor, head, before, tally, dry_run)
        tally.kept += await self._ledger.count(BLOB, tenant, "unreferenced", equals={}, low=before)
        return tally

    async def _collect_one(
        self, tenant: str, actor: str, head: Head[Blob], before: int, tally: Tally, dry_run: bool
    ) -> None:
        sha256, blob = head.id, head.value
        if blob is None or not collectable(blob, before):
            return
        if not dry_run:
            if blob.state == "present":
                begun = await self._commit(
                    tenant, actor, sha256, lambda heads, now: begin_collection(heads, sha256, before)
                )
                if begun.record is None:
                    return  # somebody uses it again, or collects it
            await self._store.delete(tenant, blob_name(sha256, blob.life))
            await self._commit(tenant, actor, sha256, lambda heads, now: end_collection(heads, sha256, blob.life))
        tally.removed += 1
        tally.bytes += blob.size

    async def collect_strays(
        self,
        found: AsyncIterator[StoredBlob],
        actor: str,
        before: int,
        tally: Tally,
        *,
        until: float | None = None,
        dry_run: bool = False,
    ) -> None:
        """What lies in the store and is not known: a crash came between the bytes and their noting."""
        async for page in _grouped(found):
            for stored in await self._unknown(page):
                if until is not None and time.monotonic() > until:
                    tally.done = False
                    return
                if stored.modified_at >= before:
                    tally.kept += 1
                    continue
                if not dry_run:
                    await self._remove_stray(actor, stored)
                tally.removed += 1
                tally.bytes += stored.size

    async def _unknown(self, page: Sequence[StoredBlob]) -> list[StoredBlob]:
        """Those that are not what the ledger means by their name."""
        unknown: list[StoredBlob] = []
        for tenant in dict.fromkeys(stored.tenant for stored in page):
            own = [stored for stored in page if stored.tenant == tenant]
            heads = await self._ledger.heads(BLOB, tenant, list({sha256_and_life(stored.blob)[0] for stored in own}))
            for stored in own:
                sha256, life = sha256_and_life(stored.blob)
                blob = value_of(heads.get(sha256))
                if blob is None or blob.state == "absent" or blob.life != life:
                    unknown.append(stored)
        return unknown

    async def _remove_stray(self, actor: str, stored: StoredBlob) -> None:
        tenant = stored.tenant
        sha256, life = sha256_and_life(stored.blob)
        await self._commit(tenant, actor, sha256, lambda heads, now: fence_off(heads, sha256, life, stored.size))
        blob = value_of(await self._ledger.head(BLOB, tenant, sha256))
        if blob is None or blob.state == "absent" or blob.life != life:
            await self._store.delete(tenant, stored.blob)

    async def _commit(self, tenant: str, actor: str, sha256: str, decide: Decide) -> Outcome:
        return await self._ledger.commit(system_write(tenant, BLOB, sha256, decide, actor=actor))


async def _grouped(found: AsyncIterator[StoredBlob]) -> AsyncIterator[list[StoredBlob]]:
    page: list[StoredBlob] = []
    async for stored in found:
        page.append(stored)
        if len(page) == PAGE:
            yield page
            page = []
    if page:
        yield page


async def collect_everywhere(collecting: Collecting, ledger: Ledger, store: BlobStore, before: int) -> Tally:
    """Of all tenants, without haste."""
    whole = Tally()
    for tenant in await ledger.tenants(BLOB):
        tally = await collecting.collect(tenant, SYSTEM, before)
        whole.removed += tally.removed
        whole.bytes += tally.bytes
        await asyncio.sleep(0)
    await collecting.collect_strays(store.blobs(), SYSTEM, before, whole)
    return whole
