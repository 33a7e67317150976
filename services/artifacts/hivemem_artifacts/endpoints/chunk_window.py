"""The chunk window of an upload: chunks arrive in any order within it, and each is answered once it is appended."""

import asyncio
import time
from typing import Final
from zlib import crc32

from hivemem_artifacts.entities.uploads import Upload
from hivemem_artifacts.ports import Staging
from hivemem_contracts.artifacts.chunks import CHUNK_HEADER, CRC32_HEADER, DURABLE_CHUNKS_HEADER, NEXT_CHUNK_HEADER
from hivemem_contracts.errors import HiveError, InvalidRequest, TooLarge, Unavailable
from hivemem_contracts.limits import ARTIFACT_CHUNK_WINDOW
from hivemem_runtime.bus.requests.raw_subjects import RawAnswer, RawRequest

CHUNK_WAIT_SECONDS: Final = 10.0
"""How long a chunk waits for the chunks before it."""


def check_crc32(request: RawRequest) -> None:
    said = request.headers.get(CRC32_HEADER)
    if said is None:
        return
    actual = f"{crc32(request.data):08x}"
    if said.lower() != actual:
        raise InvalidRequest(f"{CRC32_HEADER}: the received bytes have {actual}, not {said}", field=CRC32_HEADER)


class OpenUpload:
    """An upload open on this worker, with its staging. Chunks are appended one at a time, in order."""

    def __init__(self, tenant: str, upload_id: str, upload: Upload, staging: Staging, largest: int) -> None:
        self.tenant = tenant
        self.upload_id = upload_id
        self.upload = upload
        self.staging = staging
        self.used = time.monotonic()
        self.lock = asyncio.Lock()
        """Held while the staging changes or must not change."""
        self._largest = largest
        self._waiting: dict[int, tuple[bytes, asyncio.Future[None]]] = {}
        self._ended = False
        """Whether the last appended chunk was short, so it was the last of the file."""

    @property
    def next_chunk(self) -> int:
        """The chunk to continue with. A short chunk counts only if it is known to be the last: after a takeover it may
        also be a part of a longer one."""
        if self._ended:
            return self.whole_chunks + 1
        if self.staging.size == self.upload.size:
            return -(-self.staging.size // self.upload.chunk_bytes)
        return self.whole_chunks

    @property
    def whole_chunks(self) -> int:
        """The number of appended chunks of full size. Appending continues with the chunk of this number."""
        return self.staging.size // self.upload.chunk_bytes

    @property
    def idle(self) -> bool:
        return not self._waiting and not self.lock.locked()

    async def accept(self, index: int, data: bytes) -> RawAnswer:
        """Accept a chunk, and answer once it and all chunks before it are appended. A duplicate gets the same
        answer."""
        self.used = time.monotonic()
        self._check_size(index, data)
        if index * self.upload.chunk_bytes + len(data) > self.staging.size or index >= self.whole_chunks:
            self._check_order(index)
            await self._enqueue(index, data)
        whole = self.staging.durable == self.staging.size
        durable = self.next_chunk if whole else self.staging.durable // self.upload.chunk_bytes
        return RawAnswer({NEXT_CHUNK_HEADER: str(self.next_chunk), DURABLE_CHUNKS_HEADER: str(durable)})

    def _check_size(self, index: int, data: bytes) -> None:
        full, start = self.upload.chunk_bytes, index * self.upload.chunk_bytes
        if len(data) > full:
            raise TooLarge(f"chunk: {len(data)} bytes, {full} at most", field="chunk", limit=full, actual=len(data))
        end = start + len(data)
        if end > self._largest:
            raise TooLarge(f"size: more than {self._largest} bytes", field="size", limit=self._largest, actual=end)
        if self.upload.size is None:
            return
        expected = max(min(full, self.upload.size - start), 0)
        if len(data) != expected:
            raise InvalidRequest(
                f"chunk: chunk {index} of {self.upload.size} bytes has {expected}, {len(data)} were received",
                field="chunk",
                expected=self.next_chunk,
            )

    def _check_order(self, index: int) -> None:
        expected = self.whole_chunks
        if index >= expected + ARTIFACT_CHUNK_WINDOW or (index > expected and self._ended):
            why = "the chunk before was short, so it was the last" if self._ended else "it is too far ahead"
            raise InvalidRequest(
                f"{CHUNK_HEADER}: {expected} is expected, {index} was received: {why}",
                field=CHUNK_HEADER,
                expected=expected,
            )

    async def _enqueue(self, index: int, data: bytes) -> None:
        earlier = self._waiting.get(index)
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future() if earlier is None else earlier[1]
        self._waiting[index] = (data, future)
        await self._append()
        try:
            async with asyncio.timeout(CHUNK_WAIT_SECONDS):
                await asyncio.shield(future)
        except TimeoutError as error:
            self._waiting.pop(index, None)
            expected = self.whole_chunks
            raise Unavailable(f"chunk {expected} did not arrive", expected=expected, retry_after_ms=100) from error

    async def _append(self) -> None:
        """Append the waiting chunks that are next in order."""
        async with self.lock:
            while (index := self.whole_chunks) in self._waiting:
                data, future = self._waiting.pop(index)
                # A takeover may begin within a chunk.
                known = self.staging.size - index * self.upload.chunk_bytes
                try:
                    await self.staging.append(data[known:] if known else data)
                except HiveError as error:
                    self._fail(future, error)
                    return
                self._ended = len(data) < self.upload.chunk_bytes
                if not future.done():
                    future.set_result(None)
                if self._ended:
                    break
            self._answer_duplicates()

    def _answer_duplicates(self) -> None:
        """Answer duplicates of chunks that were appended in the meantime."""
        for index in [index for index in self._waiting if index < self.whole_chunks]:
            future = self._waiting.pop(index)[1]
            if not future.done():
                future.set_result(None)

    def _fail(self, future: asyncio.Future[None], error: HiveError) -> None:
        """Fail a chunk and all waiting chunks after it, which have to be sent again."""
        for waiting in (future, *(other for _, other in self._waiting.values())):
            if not waiting.done():
                waiting.set_exception(error)
        self._waiting.clear()
