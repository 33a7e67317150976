"""Uploads that this worker has in hand: chunks in any order within a window, each answered once it is taken."""

import asyncio
import time
from typing import Final
from zlib import crc32

from hivemem_artifacts.decisions.uploading import hold_upload, upload_not_found
from hivemem_artifacts.entities.uploads import UPLOAD, Upload
from hivemem_artifacts.ports import BlobStore, Staging
from hivemem_contracts.artifacts.chunks import CHUNK_HEADER, CRC32_HEADER, DURABLE_CHUNKS_HEADER, NEXT_CHUNK_HEADER
from hivemem_contracts.errors import HiveError, InvalidRequest, Overloaded, TooLarge, Unavailable
from hivemem_contracts.limits import ARTIFACT_CHUNK_WINDOW
from hivemem_runtime.bus.raw import RawAnswer, RawRequest
from hivemem_runtime.clock import now_microseconds
from hivemem_runtime.ledger.port import Ledger, Write, value_of

HELD: Final = 256
"""How many uploads a worker has in hand; the one that was still for longest is let go of first."""

STILL_SECONDS: Final = 60.0
"""For so long nothing may have come of an upload before it is let go of; it is taken up again when something does."""

CHUNK_WAIT_SECONDS: Final = 10.0
"""How long a chunk waits for those before it."""


def check_crc32(request: RawRequest) -> None:
    said = request.headers.get(CRC32_HEADER)
    if said is None:
        return
    actual = f"{crc32(request.data):08x}"
    if said.lower() != actual:
        raise InvalidRequest(f"{CRC32_HEADER}: the bytes that came have {actual}, not {said}", field=CRC32_HEADER)


class Held:
    """One upload, with its staging. Chunks are taken one at a time, in their order."""

    def __init__(self, tenant: str, upload_id: str, upload: Upload, staging: Staging, largest: int) -> None:
        self.tenant = tenant
        self.upload_id = upload_id
        self.upload = upload
        self.staging = staging
        self.used = time.monotonic()
        self.lock = asyncio.Lock()
        """Of whoever changes the staging, or relies on it."""
        self._largest = largest
        self._waiting: dict[int, tuple[bytes, asyncio.Future[None]]] = {}
        self._ended = False

    @property
    def next_chunk(self) -> int:
        return self.staging.size // self.upload.chunk_bytes

    @property
    def still(self) -> bool:
        return not self._waiting and not self.lock.locked()

    async def take(self, index: int, data: bytes) -> RawAnswer:
        """Answers when the chunk and all before it are taken; one that was taken before is answered again."""
        self.used = time.monotonic()
        self._check_size(index, data)
        if index * self.upload.chunk_bytes + len(data) > self.staging.size or index >= self.next_chunk:
            self._check_order(index)
            await self._taken(index, data)
        durable = self.staging.durable // self.upload.chunk_bytes
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
                f"chunk: chunk {index} of {self.upload.size} bytes has {expected}, {len(data)} came",
                field="chunk",
                expected=self.next_chunk,
            )

    def _check_order(self, index: int) -> None:
        expected = self.next_chunk
        if index >= expected + ARTIFACT_CHUNK_WINDOW or (index > expected and self._ended):
            why = "the one before was shorter, so it was the last" if self._ended else "it is too far ahead"
            raise InvalidRequest(
                f"{CHUNK_HEADER}: {expected} is the next, {index} came: {why}", field=CHUNK_HEADER, expected=expected
            )

    async def _taken(self, index: int, data: bytes) -> None:
        earlier = self._waiting.get(index)
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future() if earlier is None else earlier[1]
        self._waiting[index] = (data, future)
        await self._append()
        try:
            async with asyncio.timeout(CHUNK_WAIT_SECONDS):
                await asyncio.shield(future)
        except TimeoutError as error:
            self._waiting.pop(index, None)
            expected = self.next_chunk
            raise Unavailable(f"chunk {expected} did not come", expected=expected, retry_after_ms=100) from error

    async def _append(self) -> None:
        """All that is next, as far as it goes."""
        async with self.lock:
            while (index := self.next_chunk) in self._waiting:
                data, future = self._waiting.pop(index)
                # What a takeover found may end within a chunk.
                known = self.staging.size - index * self.upload.chunk_bytes
                try:
                    await self.staging.append(data[known:] if known else data)
                except HiveError as error:
                    self._fail(future, error)
                    return
                if not future.done():
                    future.set_result(None)
                if len(data) < self.upload.chunk_bytes:
                    self._ended = True
                    break
            self._answer_doubles()

    def _answer_doubles(self) -> None:
        """Of chunks that came once more while they were being taken."""
        for index in [index for index in self._waiting if index < self.next_chunk]:
            future = self._waiting.pop(index)[1]
            if not future.done():
                future.set_result(None)

    def _fail(self, future: asyncio.Future[None], error: HiveError) -> None:
        """Those behind it have to come again too."""
        for waiting in (future, *(other for _, other in self._waiting.values())):
            if not waiting.done():
                waiting.set_exception(error)
        self._waiting.clear()


class Holding:
    """The uploads that are in this worker's hand, by their id."""

    def __init__(self, ledger: Ledger, store: BlobStore, member: str, *, largest: int, upload_seconds: int) -> None:
        self.member = member
        self._ledger = ledger
        self._store = store
        self._largest = largest
        self._lifetime = upload_seconds * 1_000_000
        self.held: dict[str, Held] = {}
        self._opening: dict[str, asyncio.Lock] = {}

    def deadline(self) -> int:
        """When an upload that something was heard of now is given up."""
        return now_microseconds() + self._lifetime

    async def chunk(self, tenant: str, agent: str, upload_id: str, index: int, request: RawRequest) -> RawAnswer:
        check_crc32(request)
        held = await self.hold(tenant, upload_id)
        try:
            answer = await held.take(index, request.data)
        except Unavailable:
            await self.let_go_unless_usable(held)
            raise
        if held.upload.expires_at - now_microseconds() < self._lifetime // 2:
            held.upload = await self.extend(tenant, agent, upload_id)
        return answer

    async def extend(self, tenant: str, agent: str, upload_id: str) -> Upload:
        """Note that it is in our hand, and put off its end. `Committed` for one that needs nothing any more."""
        until = self.deadline()
        outcome = await self._ledger.commit(
            Write(
                tenant,
                agent,
                UPLOAD,
                upload_id,
                lambda heads, now: hold_upload(heads, upload_id, self.member, until, now),
            )
        )
        upload: Upload = outcome.record
        return upload

    async def hold(self, tenant: str, upload_id: str) -> Held:
        """The upload with its staging, which is read once to hash it where we do not have it."""
        held = self.held.get(upload_id)
        if held is not None and held.tenant == tenant:
            return held
        head = await self._ledger.head(UPLOAD, tenant, upload_id)
        upload = value_of(head)
        if upload is None or not upload.open or upload.presigned:
            raise upload_not_found(upload_id)
        if upload.member != self.member:
            raise Unavailable("another worker has this upload: resume it", resume=True, retry_after_ms=50)
        return await self._open(tenant, upload_id, upload)

    async def take_over(self, tenant: str, agent: str, upload_id: str) -> Held:
        """As `hold`, whoever has it."""
        upload = await self.extend(tenant, agent, upload_id)
        held = self.held.get(upload_id)
        if held is not None:
            held.upload, held.used = upload, time.monotonic()
            return held
        return await self._open(tenant, upload_id, upload)

    async def _open(self, tenant: str, upload_id: str, upload: Upload) -> Held:
        lock = self._opening.setdefault(upload_id, asyncio.Lock())
        try:
            async with lock:
                held = self.held.get(upload_id)
                if held is None:
                    await self._make_room()
                    staging = await self._store.open_staging(upload_id)
                    held = self.held[upload_id] = Held(tenant, upload_id, upload, staging, self._largest)
                return held
        finally:
            if not lock.locked():
                self._opening.pop(upload_id, None)

    async def _make_room(self) -> None:
        if len(self.held) < HELD:
            return
        still = [held for held in self.held.values() if held.still]
        if not still:
            raise Overloaded(f"{HELD} uploads are under way", limit=HELD, retry_after_ms=500)
        await self.let_go(min(still, key=lambda held: held.used).upload_id)

    async def let_go(self, upload_id: str, only: Held | None = None) -> None:
        """Of an upload, or of it as it was when it failed."""
        held = self.held.get(upload_id)
        if held is not None and only in (None, held):
            del self.held[upload_id]
            async with held.lock:  # a file is not closed under a thread that is writing to it
                await held.staging.close()

    async def let_go_unless_usable(self, held: Held) -> None:
        """After a failure. Whoever comes next opens it again, and begins with what is surely there."""
        if not held.staging.usable:
            await self.let_go(held.upload_id, held)

    async def rest(self) -> None:
        """Let go of what nothing has come of for a while."""
        before = time.monotonic() - STILL_SECONDS
        for held in [held for held in self.held.values() if held.used < before and held.still]:
            await self.let_go(held.upload_id)

    async def close(self) -> None:
        for upload_id in list(self.held):
            await self.let_go(upload_id)

    def status(self) -> dict[str, int]:
        return {"uploads": len(self.held)}
