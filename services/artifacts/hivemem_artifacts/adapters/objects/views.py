"""Views in an object store: only the manifest."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress

from hivemem_artifacts.adapters.objects.staging import ObjectStaging
from hivemem_artifacts.ports import NAMES_PER_CALL, PIECE_BYTES, ShownFile
from hivemem_contracts.errors import HiveError


class ObjectView:
    """The view of one session. It holds the session's lock in this process until it is finished or abandoned."""

    def __init__(self, staging: ObjectStaging, key: str, lock: asyncio.Lock) -> None:
        self._staging = staging
        self._key = key
        self._lock = lock
        self._open = True

    def keep(self, name: str, version: int, links: int) -> bool:
        """Return True for every file, because an object store shows none."""
        return True

    async def add(self, files: Sequence[ShownFile], manifest: bytes) -> None:
        assert self._open, "the view is finished"
        assert len(files) <= NAMES_PER_CALL, "more files than one call takes"
        for offset in range(0, len(manifest), PIECE_BYTES):
            await self._staging.append(manifest[offset : offset + PIECE_BYTES])

    async def finish(self) -> None:
        assert self._open, "the view is finished"
        await self._staging.write_to(self._key)
        await self.abandon()

    async def abandon(self) -> None:
        if self._open:
            self._open = False
            self._lock.release()
            with suppress(HiveError):
                await self._staging.drop()
