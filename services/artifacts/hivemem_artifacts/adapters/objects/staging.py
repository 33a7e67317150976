"""The staging of an upload as objects of equal size, which the store joins at the end.

No object is written twice, so the joined bytes are the hashed bytes.
"""

import asyncio
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from itertools import islice
from typing import Final

from hivemem_artifacts.adapters.digests import sha256
from hivemem_artifacts.adapters.objects.bucket import Bucket, StoredObject
from hivemem_artifacts.adapters.objects.errors import unavailable
from hivemem_artifacts.adapters.objects.keys import blob_key, presigned_key, segment_key
from hivemem_artifacts.adapters.objects.multipart import Part, copied, parts_of
from hivemem_artifacts.adapters.objects.takeover import SEGMENT_BYTES, holder_of
from hivemem_artifacts.adapters.threads import Threads
from hivemem_artifacts.ports import PIECE_BYTES
from hivemem_contracts.errors import HiveError, InvalidRequest, NotFound

SEGMENTS: Final = 10_000
"""The maximum number of parts of a multipart upload."""

READ_AHEAD: Final = 2
"""The number of pieces that are read while another one is hashed."""


class ObjectStaging:
    """One upload's staging objects. `_filling` collects bytes for the next segment, while at most one full segment,
    `_full`, is being put."""

    def __init__(self, bucket: Bucket, threads: Threads, upload_id: str, holder: str, *, claimed: bool) -> None:
        self._bucket = bucket
        self._threads = threads
        self._upload_id = upload_id
        self._holder = holder
        self._claimed = claimed
        self._hash = sha256()
        self._size = 0
        self._filling: list[bytes] = []
        self._filled = 0
        """The number of bytes in `_filling`."""
        self._full: list[bytes] | None = None
        self._putting: asyncio.Task[None] | None = None
        self._failed: HiveError | None = None
        self._segments: list[StoredObject] = []
        self._segments_size = 0
        self._tail: StoredObject | None = None
        """A short segment with the first bytes of `_filling`."""
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
            raise InvalidRequest("chunk: the upload is being committed and accepts no more bytes", field="chunk")
        assert len(data) <= PIECE_BYTES, "more than one piece"
        self._check_usable()
        if self._filled + len(data) >= SEGMENT_BYTES:
            await self._settle()
        await self._threads.run(self._take, data)
        self._begin_put()

    async def flush(self) -> None:
        self._check_usable()
        await self._settle()
        if self._filled > (self._tail.size if self._tail else 0):
            self._tail = await self._threads.run(self._put, list(self._filling))

    async def seal(self, tenant: str, blob: str) -> None:
        key = blob_key(tenant, blob)
        self._sealed = True
        await self.flush()
        there = await self._threads.run(self._bucket.stat, key)
        if there is None or there.size != self._size:
            await self._join(key)

    async def write_to(self, key: str) -> None:
        """Write the bytes to an object that is not a blob, replacing it. Bytes that fit in memory are written
        directly."""
        self._sealed = True
        await self._settle()
        if self._segments:
            await self.flush()
            await self._join(key)
        else:
            await self._threads.run(self._bucket.put, key, list(self._filling), "application/json")

    async def close(self) -> None:
        if not self._closed:
            with suppress(HiveError):
                await self.flush()
            self._usable, self._closed = False, True
            self._filling, self._filled = [], 0
            self._full = None

    async def drop(self) -> None:
        """Close without a flush, and remove the staged objects."""
        self._usable, self._closed = False, True
        if self._putting is not None:
            await asyncio.wait([self._putting])
        await self._threads.run(self._bucket.remove_all, [part.key for part in self._parts()])

    async def take_back(self, segments: list[StoredObject]) -> None:
        """Continue from the staged segments."""
        last = await self._hash_all([Part(segment.key, segment.etag, 0, segment.size) for segment in segments])
        for segment in segments:
            if segment.size < SEGMENT_BYTES:
                self._fill(last)
                self._tail = segment
            else:
                self._count(segment)

    async def take_presigned(self, size: int) -> None:
        """Take the bytes that a client put to the presigned URL. They must have exactly this size."""
        found = await self._threads.run(self._bucket.stat, presigned_key(self._upload_id))
        if found is None:
            raise NotFound("no bytes were put to the URL of this upload")
        if found.size != size:
            raise InvalidRequest(
                f"size: {found.size} bytes were put to the URL, {size} were expected",
                field="size",
                expected=size,
                actual=found.size,
            )
        offsets = range(0, size, PIECE_BYTES)
        await self._hash_all([Part(found.key, found.etag, at, min(PIECE_BYTES, size - at)) for at in offsets])
        self._count(found)
        self._sealed = True

    def _take(self, data: bytes) -> None:
        self._count_in(data)
        self._fill(data)

    def _count_in(self, data: bytes) -> None:
        self._hash.update(data)
        self._size += len(data)

    def _fill(self, data: bytes) -> None:
        self._filling.append(data)
        self._filled += len(data)

    def _begin_put(self) -> None:
        if self._full is None and self._filled >= SEGMENT_BYTES:
            # Only the last piece reaches into the next segment.
            self._full, last = self._filling, self._filling.pop()
            rest = self._filled - SEGMENT_BYTES
            self._full.append(last[: len(last) - rest])
            self._filling, self._filled = ([last[len(last) - rest :]] if rest else []), rest
        if self._full is not None and self._putting is None:
            self._failed = None
            self._putting = asyncio.create_task(self._put_full(self._full))

    async def _put_full(self, full: list[bytes]) -> None:
        try:
            self._count(await self._threads.run(self._put, full))
        except HiveError as error:
            self._failed = error
        else:
            self._full = self._tail = None
        finally:
            self._putting = None

    async def _settle(self) -> None:
        """Wait until no full segment is in memory. A failed put is retried."""
        self._begin_put()
        while (putting := self._putting) is not None:
            await asyncio.wait([putting])
            putting.result()
            if self._failed is not None:
                raise self._failed
            self._begin_put()

    async def _join(self, key: str) -> None:
        parts = [part for source in self._parts() for part in parts_of(source.key, source.etag, source.size)]
        try:
            if parts:
                await copied(self._threads, await self._threads.run(self._bucket.join, key), parts)
            else:
                await self._threads.run(self._bucket.put, key, ())
        except NotFound as error:
            raise unavailable(f"upload {self._upload_id} was discarded: resume it") from error

    def _parts(self) -> list[StoredObject]:
        return self._segments if self._tail is None else [*self._segments, self._tail]

    def _put(self, data: Sequence[bytes]) -> StoredObject:
        key = segment_key(self._upload_id, self._holder, self._segments_size, sum(map(len, data)))
        segment = self._bucket.put(key, data)
        holder = holder_of(self._bucket, self._upload_id) if self._claimed else self._holder
        if holder != self._holder:
            self._usable = False
            # a later holder may have found the segment and continue from it, so only an unheld upload is cleaned up
            if holder is None:
                self._bucket.remove(segment.key)
            self._check_usable()
        return segment

    def _count(self, segment: StoredObject) -> None:
        self._segments.append(segment)
        self._segments_size += segment.size

    async def _hash_all(self, pieces: Sequence[Part]) -> bytes:
        """Hash the staged pieces, and return the last one."""
        left, data = iter(pieces), b""
        reading: deque[asyncio.Task[bytes]] = deque()

        def ahead(count: int) -> None:
            reading.extend(asyncio.create_task(self._read_back(piece)) for piece in islice(left, count))

        try:
            ahead(READ_AHEAD)
            while reading:
                data = await reading.popleft()
                ahead(1)
                await self._threads.run(self._count_in, data)
            return data
        finally:
            for task in reading:
                task.cancel()
            await asyncio.gather(*reading, return_exceptions=True)

    async def _read_back(self, piece: Part) -> bytes:
        try:
            data = await self._threads.run(self._bucket.get, piece.key, piece.offset, piece.size, etag=piece.etag)
        except NotFound as error:
            raise unavailable(f"upload {self._upload_id} is being discarded") from error
        if len(data) != piece.size:
            raise unavailable(f"the staged bytes of upload {self._upload_id} cannot be read")
        return data

    def _check_usable(self) -> None:
        if not self._usable:
            raise unavailable(f"upload {self._upload_id} was taken over by another worker, or discarded: resume it")
