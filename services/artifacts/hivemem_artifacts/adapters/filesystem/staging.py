"""The staging of an upload as a growing file, which is linked as a blob at the end."""

import os
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import Final

from hivemem_artifacts.adapters.filesystem.errors import translated, unavailable
from hivemem_artifacts.adapters.filesystem.folders import Folder, write_all
from hivemem_artifacts.adapters.filesystem.layout import Layout, place
from hivemem_artifacts.adapters.filesystem.takeover import HeldFile, StagedFile
from hivemem_artifacts.adapters.names import checked_blob
from hivemem_artifacts.adapters.threads import Threads
from hivemem_contracts.errors import HiveError, InvalidRequest, Unavailable

SYNC_BYTES: Final = 16 * 1024 * 1024
"""The maximum number of bytes, beside one append, that a kill loses."""


class FileStaging:
    """One upload's staging file. Each call runs in a thread; calls must not overlap."""

    def __init__(self, layout: Layout, threads: Threads, upload_id: str, held: HeldFile) -> None:
        self._layout = layout
        self._threads = threads
        self._upload_id = upload_id
        self._descriptor = held.descriptor
        self._staged = held.staged
        self._hash = held.hash
        self._size = held.staged.durable
        self._sealed = False
        self._usable = True

    @property
    def size(self) -> int:
        return self._size

    @property
    def durable(self) -> int:
        return self._staged.durable

    @property
    def usable(self) -> bool:
        return self._usable

    @property
    def sha256(self) -> str:
        return self._hash.hexdigest()

    async def append(self, data: bytes) -> None:
        await self._threads.run(self._append, data)

    async def flush(self) -> None:
        await self._threads.run(self._flush)

    async def seal(self, tenant: str, blob: str) -> None:
        await self._threads.run(self._seal, tenant, checked_blob(blob))

    async def close(self) -> None:
        await self._threads.run(self._close)

    def _append(self, data: bytes) -> None:
        if self._sealed:
            raise InvalidRequest("chunk: the upload is being committed and accepts no more bytes", field="chunk")
        if self._size - self._staged.durable >= SYNC_BYTES:
            self._flush()
        with self._held():
            try:
                write_all(self._descriptor, data, self._size)
            except OSError:
                os.ftruncate(self._descriptor, self._size)  # a partial append would only fill a full disk further
                raise
        self._hash.update(data)
        self._size += len(data)

    def _flush(self) -> None:
        with self._held() as folder:
            if self._size > self._staged.durable:
                self._sync()
                marked = StagedFile(self._staged.name, self._size)
                # If a power loss undoes the rename, the old name states fewer durable bytes than there are.
                folder.rename(self._staged.file, folder, marked.file)
                self._staged = marked

    def _seal(self, tenant: str, blob: str) -> None:
        self._sealed = True
        self._flush()
        with self._held() as folder:
            if os.fstat(self._descriptor).st_size != self._size:  # an earlier failed append could not be truncated
                os.ftruncate(self._descriptor, self._size)
                self._sync()
            # Garbage collection spares new files, and the first bytes of a long upload may be old.
            os.utime(self._descriptor)
            with self._layout.shard(tenant, blob, make=True) as shard:
                place(folder, self._staged.file, shard, blob, self._size)

    def _close(self) -> None:
        if self._descriptor < 0:
            return
        with suppress(HiveError):
            self._flush()
        self._usable = False
        os.close(self._descriptor)
        self._descriptor = -1

    def _sync(self) -> None:
        try:
            os.fsync(self._descriptor)
        except OSError:
            # The kernel may have dropped the unwritten pages, and would report success for the next fsync.
            self._usable = False
            raise

    @contextmanager
    def _held(self) -> Generator[Folder]:
        """Open the upload's folder if its file is still this one. A missing name means that the upload was taken
        over or discarded."""
        if not self._usable:
            raise unavailable(f"upload {self._upload_id} is no longer open on this worker: resume it")
        with translated():
            try:
                with self._layout.upload(self._upload_id) as folder:
                    if folder.status(self._staged.file) is None:
                        raise self._taken_over()
                    yield folder
            except FileNotFoundError as error:
                raise self._taken_over() from error

    def _taken_over(self) -> Unavailable:
        self._usable = False
        return unavailable(f"upload {self._upload_id} was taken over by another worker, or discarded: resume it")
