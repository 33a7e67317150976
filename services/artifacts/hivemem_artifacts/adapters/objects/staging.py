"""An upload on its way to become a blob: objects of one size, put as they fill, that the store joins in the end.

No object is written twice, so what is hashed is what is joined.
"""

import asyncio
from contextlib import suppress
from typing import Final

from hivemem_artifacts.adapters.digests import sha256
from hivemem_artifacts.adapters.objects.bucket import Bucket, StoredObject
from hivemem_artifacts.adapters.objects.errors import unavailable
from hivemem_artifacts.adapters.objects.keys import blob_key, presigned_key, segment_key
from hivemem_artifacts.adapters.objects.takeover import SEGMENT_BYTES, holds
from hivemem_artifacts.adapters.threads import Threads
from hivemem_artifacts.ports import PIECE_BYTES
from hivemem_contracts.errors import HiveError, InvalidRequest, NotFound

SEGMENTS: Final = 10_000
"""The most parts that S3 joins."""


class ObjectStaging:
    """Bytes are in `_filling` until they are a segment, and one segment, `_full`, is on its way at a time."""

    def __init__(self, bucket: Bucket, threads: Threads, upload_id: str, holder: str, *, claimed: bool) -> None:
        self._bucket = bucket
        self._threads = threads
        self._upload_id = upload_id
        self._holder = holder
        self._claimed = claimed
        self._hash = sha256()
        self._size = 0
        self._filling = bytearray()
        self._full: bytes | None = None
        self._putting: asyncio.Task[None] | None = None
        self._failed: HiveError | None = None
        self._segments: list[StoredObject] = []
        self._segments_size = 0
        self._tail: StoredObject | None = None
        """A short segment with the beginning of what is filling."""
        self._sealed = False
        self._usable = True
        self._closed = False

    @property
    def size(self) -> int:
        return self._size

    @property
    def durable(self) -> int:
        return self._segments_size + (self._tail.size if self._tail else 0)

    @property
    def usable(self) -> bool:
        return self._usable

    @property
    def sha256(self) -> str:
        return self._hash.hexdigest()

    async def append(self, data: bytes) -> None:
        if self._sealed:
            raise InvalidRequest("chunk: the upload is being committed, and takes no more bytes", field="chunk")
        assert len(data) <= PIECE_BYTES, "more than one piece"
        self._check_usable()
        if len(self._filling) + len(data) >= SEGMENT_BYTES:
            await self._settle()
        await self._threads.run(self._take, data)
        self._begin_put()

    async def flush(self) -> None:
        self._check_usable()
        await self._settle()
        if len(self._filling) > (self._tail.size if self._tail else 0):
            self._tail = await self._threads.run(self._put, bytes(self._filling))

    async def seal(self, tenant: str, blob: str) -> None:
        key = blob_key(tenant, blob)
        self._sealed = True
        await self.flush()
        there = await self._threads.run(self._bucket.stat, key)
        if there is None or there.size != self._size:
            await self._join(key)

    async def write_to(self, key: str) -> None:
        """Make the bytes an object that is no blob, replacing it; what fits into memory needs no staging for that."""
        self._sealed = True
        await self._settle()
        if self._segments:
            await self.flush()
            await self._join(key)
        else:
            await self._threads.run(self._bucket.put, key, bytes(self._filling), "application/json")

    async def close(self) -> None:
        if not self._closed:
            with suppress(HiveError):
                await self.flush()
            self._usable, self._closed = False, True
            self._filling.clear()
            self._full = None

    async def drop(self) -> None:
        """Let go, and remove what was put."""
        self._usable, self._closed = False, True
        if self._putting is not None:
            await asyncio.wait([self._putting])
        await self._threads.run(self._bucket.remove_all, [part.key for part in self._parts()])

    async def take_back(self, segments: list[StoredObject]) -> None:
        """Go on from what is staged."""
        for segment in segments:
            data = await self._read_back(segment, 0, segment.size)
            if segment.size < SEGMENT_BYTES:
                self._filling += data
                self._tail = segment
            else:
                self._count(segment)

    async def take_presigned(self, size: int) -> None:
        """Take what a client has put, which must have a size, and nothing else."""
        found = await self._threads.run(self._bucket.stat, presigned_key(self._upload_id))
        if found is None:
            raise NotFound("nothing was put to the URL of this upload")
        if found.size != size:
            raise InvalidRequest(
                f"size: {found.size} bytes were put to the URL, {size} were meant",
                field="size",
                expected=size,
                actual=found.size,
            )
        for offset in range(0, size, PIECE_BYTES):
            await self._read_back(found, offset, min(PIECE_BYTES, size - offset))
        self._count(found)
        self._sealed = True

    def _take(self, data: bytes) -> None:
        self._hash.update(data)
        self._filling += data
        self._size += len(data)

    def _begin_put(self) -> None:
        if self._full is None and len(self._filling) >= SEGMENT_BYTES:
            self._full = bytes(memoryview(self._filling)[:SEGMENT_BYTES])
            del self._filling[:SEGMENT_BYTES]
        if self._full is not None and self._putting is None:
            self._failed = None
            self._putting = asyncio.create_task(self._put_full(self._full))

    async def _put_full(self, full: bytes) -> None:
        try:
            self._count(await self._threads.run(self._put, full))
        except HiveError as error:
            self._failed = error
        else:
            self._full = self._tail = None
        finally:
            self._putting = None

    async def _settle(self) -> None:
        """Wait until no full segment is in memory. One that could not be put is put again."""
        self._begin_put()
        while (putting := self._putting) is not None:
            await asyncio.wait([putting])
            putting.result()
            if self._failed is not None:
                raise self._failed
            self._begin_put()

    async def _join(self, key: str) -> None:
        try:
            if parts := self._parts():
                await self._threads.run(self._bucket.compose, key, parts)
            else:
                await self._threads.run(self._bucket.put, key, b"")
        except NotFound as error:
            raise unavailable(f"the upload {self._upload_id} was discarded: resume it") from error

    def _parts(self) -> list[StoredObject]:
        return self._segments if self._tail is None else [*self._segments, self._tail]

    def _put(self, data: bytes) -> StoredObject:
        segment = self._bucket.put(segment_key(self._upload_id, self._holder, self._segments_size, len(data)), data)
        if self._claimed and not holds(self._bucket, self._upload_id, self._holder):
            self._usable = False
            self._bucket.remove(segment.key)
            self._check_usable()
        return segment

    def _count(self, segment: StoredObject) -> None:
        self._segments.append(segment)
        self._segments_size += segment.size

    async def _read_back(self, source: StoredObject, offset: int, length: int) -> bytes:
        try:
            data = await self._threads.run(self._bucket.get, source.key, offset, length, etag=source.etag)
        except NotFound as error:
            raise unavailable(f"the upload {self._upload_id} is being discarded") from error
        if len(data) != length:
            raise unavailable(f"the staged bytes of {self._upload_id} are not to be had")
        self._hash.update(data)
        self._size += length
        return data

    def _check_usable(self) -> None:
        if not self._usable:
            raise unavailable(f"the upload {self._upload_id} goes on elsewhere, or was discarded: resume it")
