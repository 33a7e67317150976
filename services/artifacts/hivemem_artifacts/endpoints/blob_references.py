"""References to blobs, written in an order in which neither a crash nor garbage collection loses bytes."""

from collections.abc import Awaitable, Callable
from typing import Final

from hivemem_artifacts.decisions.saves import BlobLookup, BytesGone, look_up
from hivemem_artifacts.entities.blobs import BLOB
from hivemem_artifacts.ports import BlobStore
from hivemem_contracts.errors import NotFound, Unavailable
from hivemem_runtime.ledger.port import Ledger, Outcome, value_of

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
        raise Unavailable("the bytes were collected again and again", retry_after_ms=200)
