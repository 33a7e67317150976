"""Files, for a synchronous client: the operations of the service and, on top of them, whole files of any size."""

import os
from collections.abc import Iterable
from typing import Any, BinaryIO, cast

from hivemem.artifacts import Artifacts, OpenArtifact
from hivemem.methods import suggesting
from hivemem.sync.blocking import Blocking, asynchronous, blocking, iterating
from hivemem.sync.services import BlockingArtifactsOperations
from hivemem.upload_sources import BytesSource
from hivemem.uploading import Progress
from hivemem_contracts.artifacts.models import Artifact

BlockingBytesSource = bytes | bytearray | memoryview | str | os.PathLike[str] | BinaryIO | Iterable[bytes]
"""The types that can be uploaded: text is a path."""


def source_of(source: BlockingBytesSource) -> BytesSource:
    """Return a source as the asynchronous client takes it."""
    whole = isinstance(source, bytes | bytearray | memoryview | str | os.PathLike) or hasattr(source, "read")
    return cast("BinaryIO", source) if whole else asynchronous(cast("Iterable[bytes]", source))


class BlockingArtifacts(BlockingArtifactsOperations):
    """Artifacts: files of a session, versioned, of any size.

    A file is named by its session and its name, or by its URL alone: `read("s1", "report.pdf", version=2)` and
    `read("hive://default/s1/report.pdf?version=2")` are the same.
    """

    wrapped: Artifacts

    @suggesting
    def upload(
        self,
        session_id: str,
        name: str,
        source: BlockingBytesSource,
        *,
        content_type: str | None = None,
        metadata: dict[str, Any] | None = None,
        sha256: str | None = None,
        presigned: bool = False,
        progress: Progress | None = None,
    ) -> Artifact:
        """Save a file as the next version of its name.

        `source` is a path, bytes, a file object opened for reading bytes, or an iterable of bytes. It is read once, in
        constant memory, and the worker verifies its hash. An interrupted upload resumes, as long as some bytes get
        through within `timeout_seconds`. With a `sha256`, bytes that the store already has are not sent. `presigned`
        sends them to the object store itself.

        An upload of a program that was killed resumes when the program repeats it with the same `message_id`:
        `hive.with_options(message_id="report-7").artifacts.upload(…)`.
        """
        return self.thread.run(
            self.wrapped.upload(
                session_id,
                name,
                source_of(source),
                content_type=content_type,
                metadata=metadata,
                sha256=sha256,
                presigned=presigned,
                progress=progress,
            )
        )

    read = blocking(Artifacts.read)
    stream = iterating(Artifacts.stream)
    download = blocking(Artifacts.download)

    def open(self, url: str) -> "BlockingOpenArtifact":
        """Look up the file that a URL names; its bytes are read on demand."""
        return BlockingOpenArtifact(self.thread.run(self.wrapped.open(url)), self.thread)


class BlockingOpenArtifact(Blocking[OpenArtifact]):
    """A version of a file that was looked up."""

    @property
    def artifact(self) -> Artifact:
        return self.wrapped.artifact

    read = blocking(OpenArtifact.read)
    stream = iterating(OpenArtifact.stream)
    download = blocking(OpenArtifact.download)
