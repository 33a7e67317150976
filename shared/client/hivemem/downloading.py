"""Downloads a file: several chunks at a time, each verified; the target is replaced only when the file is complete."""

import asyncio
import os
import tempfile
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, suppress
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final
from zlib import crc32

from nats.aio.msg import Msg

from hivemem.retries import ask, error_in
from hivemem.threads import to_the_end
from hivemem.uploading import Progress
from hivemem_contracts.artifacts.chunks import CHUNK_HEADER, CRC32_HEADER
from hivemem_contracts.artifacts.models import Artifact
from hivemem_contracts.artifacts.replies import ArtifactContent
from hivemem_contracts.errors import HiveError, Internal, Unavailable

if TYPE_CHECKING:
    from hivemem.hive import Hive

CHUNKS_AHEAD: Final = 8
_HASHED_AT_ONCE: Final = 1024 * 1024


def judge_bytes(message: Msg) -> HiveError | None:
    """Return the error of an answer with bytes, corrupted bytes included."""
    error = error_in(message)
    if error is not None:
        return error
    said = (message.headers or {}).get(CRC32_HEADER)
    if said is not None and said != f"{crc32(message.data):08x}":
        return Unavailable("a chunk was corrupted on its way", retry_after_ms=1)
    return None


async def chunks_of(hive: "Hive", content: ArtifactContent, first: int = 0) -> AsyncGenerator[bytes, None]:
    """Yield the chunks in order, beginning with a given one."""
    count = -(-content.artifact.size // content.chunk_bytes)
    ahead: deque[asyncio.Task[Msg]] = deque()
    asked = first
    try:
        while ahead or asked < count:
            while asked < count and len(ahead) < CHUNKS_AHEAD:
                ahead.append(asyncio.create_task(_chunk(hive, content, asked)))
                asked += 1
            yield (await ahead.popleft()).data
    finally:
        for task in ahead:
            task.cancel()
        await asyncio.gather(*ahead, return_exceptions=True)


async def _chunk(hive: "Hive", content: ArtifactContent, index: int) -> Msg:
    headers = {CHUNK_HEADER: str(index)}
    return await ask(
        hive.connection, content.chunk_subject, b"", headers, hive.options, "artifacts: a chunk", judge=judge_bytes
    )


async def verified(artifact: Artifact, pieces: AsyncIterator[bytes]) -> AsyncGenerator[bytes, None]:
    """Yield the same pieces; raise `Internal` after the last one if the hash does not match."""
    digest, size = sha256(), 0
    async for piece in pieces:
        await asyncio.to_thread(digest.update, piece)
        size += len(piece)
        yield piece
    if (size, digest.hexdigest()) != (artifact.size, artifact.sha256):
        raise _wrong(artifact)


def _wrong(artifact: Artifact) -> Internal:
    return Internal(f"{artifact.url}: the received bytes do not match its hash", url=artifact.url)


async def to_file(hive: "Hive", content: ArtifactContent, file: BinaryIO, progress: Progress | None) -> None:
    """Write into an open file as the bytes arrive, from its current position."""
    done = 0
    async with aclosing(verified(content.artifact, chunks_of(hive, content))) as pieces:
        async for piece in pieces:
            await to_the_end(file.write, piece)
            done += len(piece)
            if progress is not None:
                progress(done, content.artifact.size)


async def to_path(hive: "Hive", content: ArtifactContent, path: Path, progress: Progress | None) -> None:
    """Replace a file only when the new one is complete; an interrupted download resumes where it was."""
    artifact = content.artifact
    part = path.with_name(f".{path.name[:180]}.{artifact.sha256[:16]}.part")
    with _Part(part) as found:
        done = await to_the_end(found.take_up, content.chunk_bytes, artifact.size)
        async with aclosing(chunks_of(hive, content, done // content.chunk_bytes)) as pieces:
            async for piece in pieces:
                await to_the_end(found.add, piece)
                done += len(piece)
                if progress is not None:
                    progress(done, artifact.size)
        if (found.size, found.digest.hexdigest()) != (artifact.size, artifact.sha256):
            found.discard()
            raise _wrong(artifact)
        await to_the_end(found.put_in_place, path)


class _Part:
    """Return the partial file beside the target. One download at a time owns it; another uses one of its own."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: BinaryIO
        self.digest = sha256()
        self.size = 0
        self._placed = False
        self._shared = True

    def __enter__(self) -> "_Part":
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o600)
        # Its owner may have moved it into place between the two calls: then it is a finished file.
        if not _locked(descriptor) or not self._names(descriptor):
            os.close(descriptor)
            descriptor, name = tempfile.mkstemp(suffix=".part", prefix=f"{self._path.stem}.", dir=self._path.parent)
            self._path, self._shared = Path(name), False
        self._file = os.fdopen(descriptor, "r+b", buffering=0)
        return self

    def _names(self, descriptor: int) -> bool:
        try:
            found = self._path.stat(follow_symlinks=False)
        except FileNotFoundError:
            return False
        return os.path.samestat(found, os.fstat(descriptor))

    def __exit__(self, *error: object) -> None:
        self._file.close()
        if not self._placed and (not self._shared or not self.size):
            self._path.unlink(missing_ok=True)

    def take_up(self, chunk_bytes: int, whole: int) -> int:
        """Return the number of complete chunks in the partial file, and cut off the rest."""
        there = min(os.fstat(self._file.fileno()).st_size, whole)
        there -= there % chunk_bytes
        while self.size < there:
            piece = self._file.read(min(_HASHED_AT_ONCE, there - self.size))
            if not piece:
                break
            self.digest.update(piece)
            self.size += len(piece)
        self.size -= self.size % chunk_bytes
        if self.size < there:  # it became shorter under our hands
            self.digest, self.size = sha256(), 0
        self._file.truncate(self.size)
        self._file.seek(self.size)
        return self.size

    def add(self, piece: bytes) -> None:
        view = memoryview(piece)
        while view:
            view = view[self._file.write(view) or 0 :]
        self.digest.update(piece)
        self.size += len(piece)

    def put_in_place(self, path: Path) -> None:
        os.fsync(self._file.fileno())
        self._path.replace(path)
        self._placed = True
        with suppress(OSError):  # not every system opens folders
            folder = os.open(path.parent, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)

    def discard(self) -> None:
        self.size = 0
        self._file.truncate(0)


def _locked(descriptor: int) -> bool:
    """Return whether this download owns the file; systems without such locks return True."""
    try:
        import fcntl
    except ImportError:
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
