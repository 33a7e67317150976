"""The blob store on the local file system."""

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Final, TypeVar

from hivemem_artifacts.adapters.filesystem.blobs import delete_blob, read_blob, stat_blob, stored_blobs
from hivemem_artifacts.adapters.filesystem.errors import unavailable
from hivemem_artifacts.adapters.filesystem.layout import Layout
from hivemem_artifacts.adapters.filesystem.put_groups import SmallBlob
from hivemem_artifacts.adapters.filesystem.put_queue import PutQueue
from hivemem_artifacts.adapters.filesystem.staging import FileStaging
from hivemem_artifacts.adapters.filesystem.staging_list import discard_staging, probe, stored_stagings
from hivemem_artifacts.adapters.filesystem.takeover import take_over
from hivemem_artifacts.adapters.filesystem.views import try_to_open, try_to_remove
from hivemem_artifacts.adapters.threads import Threads
from hivemem_artifacts.ports import PIECE_BYTES, Capability, Staging, StoredBlob, StoredStaging, View
from hivemem_contracts.errors import InvalidRequest

CALLS_AT_ONCE: Final = 8
VIEW_SECONDS: Final = 10.0
"""How long to wait for a view that another task or process holds."""

_POLL_SECONDS: Final = 0.02
_NO_URLS: Final = "presigned: artifacts on a file system have no URLs; send and read the bytes through the service"

ResultT = TypeVar("ResultT")


class FilesystemBlobs:
    """A blob store below `root`, which is created if missing. The file system must support hard links."""

    presigned = Capability(False, _NO_URLS)
    shows_files = Capability(True)
    largest = sys.maxsize

    def __init__(self, root: Path) -> None:
        self._layout = Layout(root)
        self._puts = PutQueue(self._layout)
        self._calls = Threads("blobs", CALLS_AT_ONCE)

    async def check(self) -> None:
        await self._calls.run(probe, self._layout)

    async def close(self) -> None:
        await self._puts.close()
        await self._calls.close()

    async def put(self, tenant: str, blob: str, data: bytes) -> None:
        assert len(data) <= PIECE_BYTES, "more than one piece: stage it"
        await self._puts.put(SmallBlob(tenant, blob, data))

    async def read(self, tenant: str, blob: str, offset: int, length: int) -> bytes:
        return await self._calls.run(read_blob, self._layout, tenant, blob, offset, length)

    async def stat(self, tenant: str, blob: str) -> StoredBlob | None:
        return await self._calls.run(stat_blob, self._layout, tenant, blob)

    async def delete(self, tenant: str, blob: str) -> None:
        await self._calls.run(delete_blob, self._layout, tenant, blob)

    def blobs(self) -> AsyncIterator[StoredBlob]:
        return self._calls.pages(stored_blobs(self._layout))

    async def open_staging(self, upload_id: str) -> Staging:
        held = await self._calls.run(take_over, self._layout, upload_id)
        return FileStaging(self._layout, self._calls, upload_id, held)

    async def discard(self, upload_id: str) -> None:
        await self._calls.run(discard_staging, self._layout, upload_id)

    def stagings(self) -> AsyncIterator[StoredStaging]:
        return self._calls.pages(stored_stagings(self._layout))

    async def presign_put(self, upload_id: str, *, seconds: int) -> str:
        raise InvalidRequest(_NO_URLS, field="presigned")

    async def open_presigned(self, upload_id: str, size: int) -> Staging:
        raise InvalidRequest(_NO_URLS, field="presigned")

    async def presign_get(self, tenant: str, blob: str, *, seconds: int, file_name: str, content_type: str) -> str:
        raise InvalidRequest(_NO_URLS, field="presigned")

    async def open_view(self, tenant: str, session_id: str) -> View:
        return await _once_free(lambda: self._calls.run(try_to_open, self._layout, self._calls, tenant, session_id))

    async def remove_view(self, tenant: str, session_id: str) -> None:
        await _once_free(lambda: self._calls.run(try_to_remove, self._layout, tenant, session_id))


async def _once_free(attempt: Callable[[], Awaitable[ResultT | None]]) -> ResultT:
    """Repeat an attempt until it succeeds, by polling, because a released lock sends no signal."""
    deadline = asyncio.get_running_loop().time() + VIEW_SECONDS
    while (result := await attempt()) is None:
        if asyncio.get_running_loop().time() > deadline:
            raise unavailable("another task or process holds the view of the session")
        await asyncio.sleep(_POLL_SECONDS)
    return result
