"""The artifacts service as any program sees it: subjects, headers and JSON over a plain NATS client."""

from base64 import b64decode, b64encode
from dataclasses import dataclass
from typing import Any, ClassVar
from zlib import crc32

import orjson
from nats.aio.msg import Msg

from hivemem_artifacts.endpoints.deletions import ArtifactDeleter
from hivemem_artifacts.endpoints.open_uploads import OpenUploads
from hivemem_artifacts.endpoints.raw_subjects import RawSubjects
from hivemem_artifacts.endpoints.upload_commits import UploadCommits
from hivemem_artifacts.endpoints.uploads import Uploads
from hivemem_artifacts.endpoints.workspace_deletions import WorkspaceDeleter
from hivemem_artifacts.ports import BlobStore
from hivemem_artifacts.reactions.upkeep import Upkeep
from hivemem_runtime.worker import Worker
from hivemem_testing import agent
from hivemem_testing.agent import Body, Refused, Told, connect
from hivemem_testing.waiting import DEADLINE_SECONDS, eventually

__all__ = ["Agent", "Body", "Inside", "Refused", "Told", "connect", "eventually", "parts_of"]


@dataclass(frozen=True)
class Inside:
    """The parts of a worker, for tests that inspect or break it."""

    upkeep: Upkeep
    deleter: ArtifactDeleter
    workspace_deleter: WorkspaceDeleter
    open_uploads: OpenUploads
    store: BlobStore
    uploads: Uploads
    commits: UploadCommits


def parts_of(worker: Worker) -> Inside:
    background = worker._parts.background  # pyright: ignore[reportPrivateUsage]  # nothing but a test wants it
    raw = next(part for part in background if isinstance(part, RawSubjects))
    upkeep: Any = next(part for part in background if isinstance(part, Upkeep))
    return Inside(
        upkeep,
        upkeep._deleter,
        upkeep._workspace_deleter,
        upkeep._open_uploads,
        upkeep._store,
        raw.uploads,
        raw.commits,
    )


class Agent(agent.Agent):
    """One agent of a tenant of its own. The default session is `s1`."""

    SERVICE: ClassVar[str] = "artifacts"

    async def save(self, name: str, data: bytes, /, *, id: str | None = None, **fields: Any) -> Body:
        body = {"session_id": "s1", "name": name, "data_base64": b64encode(data).decode()}
        return await self.ask("save", body, id=id, **fields)

    async def content(self, name: str, /, **fields: Any) -> bytes:
        """Return the bytes that `get` answers inline."""
        found = await self.ask("get", {"session_id": "s1", "name": name}, **fields)
        return b64decode(found["data_base64"])

    async def stat(self, name: str, /, **fields: Any) -> Body:
        return await self.ask("stat", {"session_id": "s1", "name": name}, **fields)

    async def begin(self, name: str, /, *, id: str | None = None, **fields: Any) -> Body:
        return await self.ask("begin", {"session_id": "s1", "name": name}, id=id, **fields)

    async def chunk(
        self, upload: Body, index: int, data: bytes, *, crc: bool = True, headers: dict[str, str] | None = None
    ) -> dict[str, str]:
        """Send a chunk and return the headers of the answer. Raises `Refused`."""
        own = {"Hive-Chunk": str(index), **({"Hive-Chunk-Crc32": f"{crc32(data):08x}"} if crc else {})}
        return headers_of(await self.raw(upload["chunk_subject"], data, {**own, **(headers or {})}))

    async def raw(self, subject: str, data: bytes, headers: dict[str, str]) -> Msg:
        return await self.client.request(subject, data, timeout=DEADLINE_SECONDS, headers=headers)

    async def read_chunk(self, content: Body, index: int) -> bytes:
        message = await self.raw(content["chunk_subject"], b"", {"Hive-Chunk": str(index)})
        headers_of(message)
        return message.data

    async def pages(self, operation: str, /, **fields: Any) -> list[Body]:
        """Return all items of a paged operation."""
        found: list[Body] = []
        cursor: str | None = None
        while True:
            page = await self.ask(operation, {"session_id": "s1", **fields, **({"cursor": cursor} if cursor else {})})
            found += page["items"]
            cursor = page["cursor"]
            if cursor is None:
                return found


def headers_of(message: Msg) -> dict[str, str]:
    headers = message.headers or {}
    if "Nats-Service-Error-Code" in headers:
        raise Refused(headers, orjson.loads(message.data))
    return headers
