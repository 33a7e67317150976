"""The blob store in a bucket."""

import asyncio
from collections.abc import AsyncIterator, Generator
from itertools import groupby
from typing import Final
from urllib.parse import quote
from weakref import WeakValueDictionary

from hivemem_artifacts.adapters.objects.bucket import Access, Bucket
from hivemem_artifacts.adapters.objects.keys import (
    BLOBS,
    STAGING,
    blob_key,
    blob_place,
    fresh_id,
    manifest_key,
    presigned_key,
    staged_upload_id,
    staging_prefix,
)
from hivemem_artifacts.adapters.objects.read_ahead import ReadAhead
from hivemem_artifacts.adapters.objects.staging import SEGMENTS, ObjectStaging
from hivemem_artifacts.adapters.objects.takeover import SEGMENT_BYTES, take_over
from hivemem_artifacts.adapters.objects.views import ObjectView
from hivemem_artifacts.adapters.threads import Threads
from hivemem_artifacts.ports import PIECE_BYTES, Capability, Staging, StoredBlob, StoredStaging, View
from hivemem_contracts.errors import NotFound

CALLS_AT_ONCE: Final = 16


class ObjectBlobs:
    """A blob store at `url`. Clients reach it at `public_url`, if that differs."""

    presigned = Capability(True)
    shows_files = Capability(False, "an object store has no folders for people; it only stores the manifest")
    largest = SEGMENTS * SEGMENT_BYTES

    def __init__(
        self, url: str, access_key: str, secret_key: str, bucket: str, *, public_url: str | None = None
    ) -> None:
        access = Access(url, public_url or url, access_key, secret_key)
        self._bucket = Bucket(access, bucket, CALLS_AT_ONCE)
        self._threads = Threads("objects", CALLS_AT_ONCE)
        self._reading = ReadAhead(self._get)
        self._views: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def check(self) -> None:
        await self._threads.run(self._probe)

    async def close(self) -> None:
        await self._reading.close()
        await self._threads.close()
        self._bucket.close()

    async def put(self, tenant: str, blob: str, data: bytes) -> None:
        assert len(data) <= PIECE_BYTES, "more than one piece: stage it"
        await self._threads.run(self._bucket.put, blob_key(tenant, blob), [data])

    async def read(self, tenant: str, blob: str, offset: int, length: int) -> bytes:
        assert 0 < length <= PIECE_BYTES, "one piece at a time"
        try:
            return await self._reading.read(blob_key(tenant, blob), offset, length)
        except NotFound as error:
            raise NotFound(f"the bytes {blob} are not stored", blob=blob) from error

    async def stat(self, tenant: str, blob: str) -> StoredBlob | None:
        found = await self._threads.run(self._bucket.stat, blob_key(tenant, blob))
        return None if found is None else StoredBlob(tenant, blob, found.size, found.modified_at)

    async def delete(self, tenant: str, blob: str) -> None:
        key = blob_key(tenant, blob)
        self._reading.forget(key)
        await self._threads.run(self._bucket.remove, key)

    def blobs(self) -> AsyncIterator[StoredBlob]:
        return self._threads.pages(self._stored_blobs())

    async def open_staging(self, upload_id: str) -> Staging:
        taken = await self._threads.run(take_over, self._bucket, upload_id)
        staging = ObjectStaging(self._bucket, self._threads, upload_id, taken.holder, claimed=True)
        await staging.take_back(taken.segments)
        return staging

    async def discard(self, upload_id: str) -> None:
        await self._threads.run(self._discard, staging_prefix(upload_id))

    def stagings(self) -> AsyncIterator[StoredStaging]:
        return self._threads.pages(self._stored_stagings())

    async def presign_put(self, upload_id: str, *, seconds: int) -> str:
        return await self._threads.run(self._bucket.presign_put, presigned_key(upload_id), seconds)

    async def open_presigned(self, upload_id: str, size: int) -> Staging:
        staging = self._unclaimed(upload_id)
        await staging.take_presigned(size)
        return staging

    async def presign_get(self, tenant: str, blob: str, *, seconds: int, file_name: str, content_type: str) -> str:
        headers = {
            "content-disposition": f"attachment; filename*=UTF-8''{quote(file_name, safe='')}",
            "content-type": content_type,
        }
        return await self._threads.run(self._bucket.presign_get, blob_key(tenant, blob), seconds, headers)

    async def open_view(self, tenant: str, session_id: str) -> View:
        key = manifest_key(tenant, session_id)
        lock = self._views.setdefault(key, asyncio.Lock())
        await lock.acquire()
        return ObjectView(self._unclaimed(fresh_id("view")), key, lock)

    async def remove_view(self, tenant: str, session_id: str) -> None:
        key = manifest_key(tenant, session_id)
        async with self._views.setdefault(key, asyncio.Lock()):
            await self._threads.run(self._bucket.remove, key)

    async def _get(self, key: str, offset: int, length: int) -> bytes:
        return await self._threads.run(self._bucket.get, key, offset, length)

    def _unclaimed(self, upload_id: str) -> ObjectStaging:
        """Return a staging that no other holder takes over."""
        return ObjectStaging(self._bucket, self._threads, upload_id, "only", claimed=False)

    def _probe(self) -> None:
        self._bucket.make()
        key = presigned_key(fresh_id("check"))
        self._bucket.put(key, [b"check"])
        self._bucket.remove(key)

    def _stored_blobs(self) -> Generator[StoredBlob]:
        for found in self._bucket.objects(BLOBS):
            if place := blob_place(found.key):
                yield StoredBlob(place.tenant, place.blob, found.size, found.modified_at)

    def _stored_stagings(self) -> Generator[StoredStaging]:
        for upload_id, staged in groupby(self._bucket.objects(STAGING), lambda found: staged_upload_id(found.key)):
            if upload_id is not None:
                yield StoredStaging(upload_id, max(found.modified_at for found in staged))

    def _discard(self, prefix: str) -> None:
        self._bucket.remove_all(found.key for found in self._bucket.objects(prefix))
