"""Files: `hive.artifacts`, the operations of the service and, on top of them, whole files of any size."""

import asyncio
import os
from base64 import b64decode, b64encode
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final, cast

from hivemem import downloading, presigned
from hivemem.methods import suggesting
from hivemem.services.artifacts import ArtifactsOperations
from hivemem.upload_sources import BytesSource, Source, open_source
from hivemem.uploading import File, Progress, Uploading
from hivemem_contracts.artifacts.models import Artifact
from hivemem_contracts.artifacts.operations import BEGIN, COMMIT, GET, SAVE
from hivemem_contracts.artifacts.replies import ArtifactContent
from hivemem_contracts.artifacts.urls import parse_url
from hivemem_contracts.errors import Forbidden, InvalidRequest, Unavailable
from hivemem_contracts.limits import ARTIFACT_INLINE_BYTES, ARTIFACT_METADATA_BYTES

if TYPE_CHECKING:
    from hivemem.hive import Hive

PRESIGNED_TRIES: Final = 5
REQUEST_BYTES: Final = ARTIFACT_METADATA_BYTES + 8_192
"""The bytes that a request needs beside its data."""


class Artifacts(ArtifactsOperations):
    """Artifacts: files of a session, versioned, of any size.

    A file is named by its session and its name, or by its URL alone: `read("s1", "report.pdf", version=2)` and
    `read("hive://default/s1/report.pdf?version=2")` are the same.
    """

    def __init__(self, hive: "Hive") -> None:
        super().__init__(hive)
        self._hive = hive

    @suggesting
    async def upload(
        self,
        session_id: str,
        name: str,
        source: BytesSource,
        *,
        content_type: str | None = None,
        metadata: dict[str, Any] | None = None,
        sha256: str | None = None,
        presigned: bool = False,
        progress: Progress | None = None,
    ) -> Artifact:
        """Save a file as the next version of its name.

        `source` is a path, bytes, a file object opened for reading bytes, or an asynchronous iterator of bytes. It is
        read once, in constant memory, and the worker verifies its hash. An interrupted upload resumes, as long as some
        bytes get through within `timeout_seconds`. With a `sha256`, bytes that the store already has are not sent.
        `presigned` sends them to the object store itself.

        An upload of a program that was killed resumes when the program repeats it with the same `message_id`:
        `hive.with_options(message_id="report-7").artifacts.upload(…)`.
        """
        file = File(session_id, name, content_type, metadata, sha256)
        if presigned:
            return await self._put(file, source, progress)
        opened = await open_source(source)
        try:
            whole = await self._small(opened)
            if whole is not None:
                return await self._save(file, whole, progress)
            return await Uploading(self._hive, file, opened, progress).run()
        finally:
            await opened.close()

    async def _small(self, source: Source) -> bytes | None:
        """Return all bytes, if they fit into one request."""
        await self._hive.connection.open()  # which tells the limit of the server
        passes = self._hive.connection.client.max_payload
        largest = min(ARTIFACT_INLINE_BYTES, (passes - REQUEST_BYTES) * 3 // 4)
        if largest <= 0 or (source.size or 0) > largest:
            return None
        start = await source.chunk(0, largest)
        whole = source.size is not None or len(start) < largest or not await source.chunk(1, largest)
        return start if whole else None

    async def _save(self, file: File, data: bytes, progress: Progress | None) -> Artifact:
        fields = file.fields()
        fields["sha256"] = file.sha256 or sha256(data).hexdigest()
        artifact = await self._hive.send(SAVE, {**fields, "data_base64": b64encode(data).decode()})
        if progress is not None:
            progress(len(data), len(data))
        return artifact

    async def _put(self, file: File, source: BytesSource, progress: Progress | None) -> Artifact:
        """Upload by HTTP, and start again after a failure: a store keeps nothing of an interrupted upload."""
        opened = await asyncio.to_thread(_file_of, source)
        try:
            start = opened.tell()
            size = opened.seek(0, os.SEEK_END) - start
            upload = await self._hive.send(BEGIN, {**file.fields(), "size": size, "presigned": True})
            if upload.put_url is None:
                raise InvalidRequest("presigned: the worker returned no URL", field="presigned")
            digest = await _put_persistently(upload.put_url, opened, start, size)
            if progress is not None:
                progress(size, size)
            return await self._hive.send(COMMIT, {"upload_id": upload.upload_id, "sha256": digest})
        finally:
            if opened is not source:
                await asyncio.to_thread(opened.close)

    @suggesting
    async def read(self, session_or_url: str, name: str | None = None, *, version: int | None = None) -> bytes:
        """Return all bytes of a file. Raises `NotFound`, `InvalidRequest` for a malformed URL, `Forbidden` for another
        tenant's."""
        content = await self._content(session_or_url, name, version)
        async with aclosing(self._pieces(content)) as found:
            return b"".join([piece async for piece in found])

    async def stream(
        self, session_or_url: str, name: str | None = None, *, version: int | None = None
    ) -> AsyncIterator[bytes]:
        """Yield the bytes of a file, piece by piece. Raises `Internal` after the last one if the hash does not
        match."""
        content = await self._content(session_or_url, name, version)
        async with aclosing(self._pieces(content)) as found:
            async for piece in found:
                yield piece

    def _pieces(self, content: ArtifactContent) -> AsyncGenerator[bytes, None]:
        return downloading.verified(content.artifact, _inline_or_chunks(self._hive, content))

    @suggesting
    async def download(
        self,
        session_or_url: str,
        name: str | None = None,
        *,
        to: str | os.PathLike[str] | BinaryIO,
        version: int | None = None,
        progress: Progress | None = None,
    ) -> Artifact:
        """Write a file to a path, or into a file object.

        A path is replaced in one step, when the file is complete and its hash is right. A hidden file beside it keeps
        the bytes of an interrupted download, and the next download of the same bytes to the same path resumes there.
        """
        content = await self._content(session_or_url, name, version)
        if isinstance(to, str | os.PathLike):
            await downloading.to_path(self._hive, content, Path(to), progress)
        else:
            await downloading.to_file(self._hive, content, to, progress)
        return content.artifact

    async def open(self, url: str) -> "OpenArtifact":
        """Look up the file that a URL names; its bytes are read on demand."""
        return OpenArtifact(self._hive, await self._content(url, None, None))

    async def _content(self, session_or_url: str, name: str | None, version: int | None) -> ArtifactContent:
        session_id = session_or_url
        if name is None:
            url = parse_url(session_or_url)
            if url.tenant != self._hive.tenant:
                raise Forbidden(f"url: it is of tenant {url.tenant!r}, this client is of {self._hive.tenant!r}")
            session_id, name, version = url.session_id, url.name, version or url.version
        fields: dict[str, Any] = {"session_id": session_id, "name": name}
        return await self._hive.send(GET, fields if version is None else {**fields, "version": version})


@dataclass(frozen=True, slots=True)
class OpenArtifact:
    """A version of a file that was looked up."""

    hive: "Hive"
    content: ArtifactContent

    @property
    def artifact(self) -> Artifact:
        return self.content.artifact

    async def read(self) -> bytes:
        """Return all bytes."""
        return await self.hive.artifacts.read(self.artifact.url)

    def stream(self) -> AsyncIterator[bytes]:
        """Yield the bytes, piece by piece."""
        return self.hive.artifacts.stream(self.artifact.url)

    @suggesting
    async def download(self, to: str | os.PathLike[str] | BinaryIO, progress: Progress | None = None) -> Artifact:
        """Write the file to a path, or into a file object."""
        return await self.hive.artifacts.download(self.artifact.url, to=to, progress=progress)


async def _inline_or_chunks(hive: "Hive", content: ArtifactContent) -> AsyncGenerator[bytes, None]:
    if content.data_base64 is not None:
        yield b64decode(content.data_base64)
        return
    async with aclosing(downloading.chunks_of(hive, content)) as found:
        async for piece in found:
            yield piece


async def _put_persistently(url: str, file: BinaryIO, start: int, size: int) -> str:
    turn = 0
    while True:
        file.seek(start)
        try:
            return await asyncio.to_thread(presigned.put, url, file, size)
        except Unavailable:
            turn += 1
            if turn == PRESIGNED_TRIES:
                raise
        await asyncio.sleep(0.1 * 2.0**turn)


def _file_of(source: BytesSource) -> BinaryIO:
    """Return a source that HTTP can send: it has a size and can be read again."""
    if isinstance(source, bytes | bytearray | memoryview):
        return BytesIO(source)
    if isinstance(source, str | os.PathLike):
        try:
            return Path(source).open("rb")
        except OSError as error:
            raise InvalidRequest(f"source: {error}", field="source") from error
    if hasattr(source, "seekable") and cast("BinaryIO", source).seekable():
        return cast("BinaryIO", source)
    raise InvalidRequest("source: a presigned upload needs a path, bytes or a seekable file", field="source")
