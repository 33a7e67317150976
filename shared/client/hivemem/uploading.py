"""Uploads a file: small ones in one request, larger ones in chunks, several at a time, with resumption."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from hashlib import sha256
from itertools import count
from typing import TYPE_CHECKING, Any, Final
from zlib import crc32

from hivemem.connection import NoAnswer
from hivemem.retries import error_in
from hivemem.upload_sources import Source
from hivemem_contracts.artifacts.chunks import CHUNK_HEADER, CRC32_HEADER, DURABLE_CHUNKS_HEADER
from hivemem_contracts.artifacts.models import Artifact, Upload
from hivemem_contracts.artifacts.operations import ABORT, BEGIN, COMMIT, RESUME
from hivemem_contracts.errors import HiveError, InvalidRequest, Unavailable
from hivemem_contracts.limits import ARTIFACT_CHUNK_WINDOW

if TYPE_CHECKING:
    from hivemem.hive import Hive

Progress = Callable[[int, int | None], None]
"""Called with the number of finished bytes, and the total if known."""

CORRUPTED_TRIES: Final = 5
COMMIT_SECONDS: Final = 600.0
"""A store may take long to assemble a large file; a worker that is asked twice does it once."""

ABANDON_SECONDS: Final = 2.0
_WAIT_SECONDS: Final = 0.2


class Stuck(Exception):
    """The worker is gone, or expects another chunk: the upload must be resumed."""

    def __init__(self, cause: Exception) -> None:
        super().__init__(str(cause))
        self.cause = cause


@dataclass(frozen=True, slots=True)
class File:
    """The metadata of a file to upload: a file of a session, or bytes of a workspace."""

    session_id: str | None = None
    name: str | None = None
    content_type: str | None = None
    metadata: dict[str, Any] | None = None
    sha256: str | None = None
    workspace_id: str | None = None

    def fields(self) -> dict[str, Any]:
        return {name: value for name, value in asdict(self).items() if value is not None}


class Uploading:
    """One upload in chunks. It continues as long as some bytes get through from time to time."""

    def __init__(self, hive: "Hive", file: File, source: Source, progress: Progress | None) -> None:
        self._hive = hive
        self._file = file
        self._source = source
        self._progress = progress
        self._upload_id = ""
        self._hash = sha256()
        self._hashed: int = 0
        """The number of chunks in the hash."""
        self._size = 0
        self._done = 0
        self._advanced = asyncio.get_running_loop().time()

    async def run(self) -> Artifact:
        said = {} if self._source.size is None else {"size": self._source.size}
        upload = await self._hive.send(BEGIN, {**self._file.fields(), **said})
        self._upload_id = upload.upload_id
        while upload.artifact is None:
            try:
                if not upload.stored:
                    await self._send(upload)
                return await self._commit(upload)
            except Stuck as stuck:
                upload = await self._resume(upload, stuck)
        return upload.artifact

    async def abandon(self) -> None:
        """Delete the chunks of an upload that was cancelled. If that fails, the worker deletes them after a day."""
        if self._upload_id:
            brief = self._hive.with_options(timeout_seconds=ABANDON_SECONDS, message_id=None)
            with suppress(HiveError):
                await brief.send(ABORT, {"upload_id": self._upload_id})

    async def _resume(self, upload: Upload, stuck: Stuck) -> Upload:
        if asyncio.get_running_loop().time() - self._advanced > self._hive.options.timeout_seconds:
            raise stuck.cause
        await asyncio.sleep(_WAIT_SECONDS)
        return await self._hive.send(RESUME, {"upload_id": upload.upload_id})

    async def _commit(self, upload: Upload) -> Artifact:
        fields: dict[str, Any] = {"upload_id": upload.upload_id}
        if not upload.stored:
            fields |= {"sha256": self._hash.hexdigest(), "size": self._size}
        options = self._hive.options
        patient = self._hive.with_options(timeout_seconds=max(options.timeout_seconds, COMMIT_SECONDS), message_id=None)
        try:
            artifact = await patient.send(COMMIT, fields)
        except InvalidRequest as error:
            if "expected" in error.context:  # some chunks are missing
                raise Stuck(error) from error
            raise
        self._done = -1  # the last call reports the total, even if it was unknown before
        self._advance(artifact.size, artifact.size)
        return artifact

    async def _send(self, upload: Upload) -> None:
        """Send all chunks from the first missing one, a few at a time.

        A failed chunk cancels the others, but reading and hashing continue to their end. Cancelled there, an iterator
        would end too early, and a thread would still run beside the next one.
        """
        await self._hash_through(upload.next_chunk, upload.chunk_bytes)
        window = asyncio.Semaphore(ARTIFACT_CHUNK_WINDOW)
        under_way: set[asyncio.Task[None]] = set()
        stuck: list[Stuck] = []

        async def send(index: int, data: bytes) -> None:
            try:
                await self._send_chunk(upload, index, data)
            except Stuck as error:
                stuck.append(error)
                for task in under_way - {asyncio.current_task()}:
                    task.cancel()

        def ended(task: asyncio.Task[None]) -> None:
            under_way.discard(task)
            window.release()

        try:
            async with asyncio.TaskGroup() as sending:
                for index in count(upload.next_chunk):
                    await window.acquire()
                    if stuck or not (data := await self._read(index, upload.chunk_bytes)) or stuck:
                        break
                    under_way.add(task := sending.create_task(send(index, data)))
                    task.add_done_callback(ended)
        except* HiveError as group:
            raise group.exceptions[0] from None
        if stuck:
            raise stuck[0]

    async def _hash_through(self, next_chunk: int, chunk_bytes: int) -> None:
        """Hash the chunks that an earlier process has uploaded, too."""
        for index in range(self._hashed, next_chunk):
            await self._read(index, chunk_bytes)

    async def _read(self, index: int, chunk_bytes: int) -> bytes:
        data = await self._source.chunk(index, chunk_bytes)
        if index == self._hashed and data:
            await asyncio.to_thread(self._hash.update, data)
            self._hashed += 1
            self._size += len(data)
            # Nothing could get through while there was nothing to send.
            self._advanced = asyncio.get_running_loop().time()
        return data

    async def _send_chunk(self, upload: Upload, index: int, data: bytes) -> None:
        headers = {CHUNK_HEADER: str(index), CRC32_HEADER: f"{crc32(data):08x}"}
        corrupted = 0
        while True:
            try:
                message = await self._hive.connection.request(
                    upload.chunk_subject, data, headers, self._hive.options.attempt_seconds
                )
            except NoAnswer as failure:
                if failure.reason == "no_responders":
                    raise Stuck(_gone(failure.reason)) from failure
                await self._wait(_gone(failure.reason))
                continue
            error = error_in(message)
            if error is None:
                durable = (message.headers or {}).get(DURABLE_CHUNKS_HEADER, "")
                self._source.forget(int(durable) if durable.isdigit() else 0)
                self._advance(index * upload.chunk_bytes + len(data), self._source.size)
                return
            if isinstance(error, InvalidRequest) and error.context.get("field") == CRC32_HEADER:
                corrupted += 1
                if corrupted < CORRUPTED_TRIES:
                    continue
            if error.context.get("resume") or error.context.get("expected") is not None:
                raise Stuck(error)
            if not error.retryable:
                raise error
            await self._wait(error)

    async def _wait(self, why: HiveError) -> None:
        """Wait before the next attempt. Raises `why` if nothing has got through for too long."""
        loop = asyncio.get_running_loop()
        left = self._advanced + self._hive.options.timeout_seconds - loop.time()
        if left <= 0:
            raise why
        if not self._hive.connection.connected:
            await self._hive.connection.wait_connected(left)
            return
        told = why.context.get("retry_after_ms")
        await asyncio.sleep(min(told / 1_000 if isinstance(told, int | float) else _WAIT_SECONDS, left))

    def _advance(self, done: int, total: int | None) -> None:
        self._advanced = asyncio.get_running_loop().time()
        if done > self._done:
            self._done = done
            if self._progress is not None:
                self._progress(done, total)


def _gone(reason: str) -> Unavailable:
    return Unavailable(f"artifacts: no worker accepts the chunks ({reason})", reason=reason, retry_after_ms=200)
