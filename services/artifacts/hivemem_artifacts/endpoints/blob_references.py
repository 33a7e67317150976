"""References to blobs, written in an order in which neither a crash nor garbage collection loses bytes."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Final

from hivemem_artifacts.decisions.saves import BlobLookup, BytesGone, look_up, store_unreferenced
from hivemem_artifacts.entities.blobs import BLOB
from hivemem_artifacts.ports import BlobStore
from hivemem_contracts.errors import NotFound, Unavailable
from hivemem_runtime.ledger.port import Ledger, Outcome, value_of
from hivemem_runtime.service import Call

_TRIES: Final = 20

Put = Callable[[str], Awaitable[None]]
"""Make the bytes a blob of that name, durable when it returns."""

CommitReference = Callable[[BlobLookup], Awaitable[Outcome]]
"""Commit a reference to the bytes. The decision raises `BytesGone` if they may have been collected."""


class BlobReferences:
    """Puts missing bytes into the store, and then commits the reference to them."""

    def __init__(self, ledger: Ledger, store: BlobStore) -> None:
        self._ledger = ledger
        self.store = store

    async def stored(self, tenant: str, sha256: str) -> int | None:
        """Return the size of the bytes if they are stored."""
        head = await self._ledger.head(BLOB, tenant, sha256)
        blob = value_of(head)
        return blob.size if blob is not None and blob.usable else None

    async def keep(self, tenant: str, sha256: str, size: int, put: Put | None, commit: CommitReference) -> Outcome:
        """Store bytes and commit their reference. Without `put`, raises `BytesGone` if the bytes are not stored."""
        for _ in range(_TRIES):
            found = look_up(await self._ledger.head(BLOB, tenant, sha256), sha256, size)
            if not found.there:
                if put is None:
                    raise BytesGone("the bytes are not there")
                await put(found.blob)
            try:
                return await commit(found)
            except (BytesGone, NotFound) as error:
                if isinstance(error, NotFound) and await self.store.stat(tenant, found.blob) is not None:
                    raise  # another entity is missing, not the bytes
        raise _collected_again()

    async def keep_unreferenced(self, call: Call, blobs: Mapping[str, bytes]) -> None:
        """Store the bytes of blobs by their hash, and record them together. They stay for the grace period."""
        tenant = call.sender.tenant
        for _ in range(_TRIES):
            heads = await self._ledger.heads(BLOB, tenant, list(blobs))
            found = [look_up(heads.get(sha256), sha256, len(data)) for sha256, data in blobs.items()]
            puts = [self.store.put(tenant, lookup.blob, blobs[lookup.sha256]) for lookup in found if not lookup.there]
            await asyncio.gather(*puts)
            reads = [(BLOB, sha256) for sha256 in blobs]
            write = call.write(BLOB, found[0].sha256, partial(store_unreferenced, found), reads)
            with suppress(BytesGone):
                await self._ledger.commit(write)
                return
        raise _collected_again()


def _collected_again() -> Unavailable:
    return Unavailable("the bytes were collected again and again", retry_after_ms=200)
