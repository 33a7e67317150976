"""Bytes and what is noted of them, in an order that a crash at any point, or a collection, cannot turn into a loss."""

from collections.abc import Awaitable, Callable
from typing import Final

from hivemem_artifacts.decisions.saving import Bytes, BytesGone, look
from hivemem_artifacts.entities.blobs import BLOB
from hivemem_artifacts.ports import BlobStore
from hivemem_contracts.errors import NotFound, Unavailable
from hivemem_runtime.ledger.port import Ledger, Outcome, value_of

_TRIES: Final = 20

Put = Callable[[str], Awaitable[None]]
"""Make the bytes a blob of that name, durable when it returns."""

Note = Callable[[Bytes], Awaitable[Outcome]]
"""Commit what relies on the bytes; its decision refuses with `BytesGone` where they may not be there any more."""


class Keeping:
    """Puts bytes into the store where they are not, and only then commits what uses them."""

    def __init__(self, ledger: Ledger, store: BlobStore) -> None:
        self._ledger = ledger
        self.store = store

    async def stored(self, tenant: str, sha256: str) -> int | None:
        """How many bytes they are, if they are there already."""
        head = await self._ledger.head(BLOB, tenant, sha256)
        blob = value_of(head)
        return blob.size if blob is not None and blob.usable else None

    async def keep(self, tenant: str, sha256: str, size: int, put: Put | None, note: Note) -> Outcome:
        """Without a `put` only bytes that are there already will do; `BytesGone` where they are not."""
        for _ in range(_TRIES):
            found = look(await self._ledger.head(BLOB, tenant, sha256), sha256, size)
            if not found.there:
                if put is None:
                    raise BytesGone("the bytes are not there")
                await put(found.blob)
            try:
                return await note(found)
            except (BytesGone, NotFound) as error:
                if isinstance(error, NotFound) and await self.store.stat(tenant, found.blob) is not None:
                    raise  # it is something else that is missing
        raise Unavailable("the bytes are collected all the time", retry_after_ms=200)
