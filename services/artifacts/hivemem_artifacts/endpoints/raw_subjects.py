"""The raw subjects of the service: chunks of files, bytes of workspaces, and commits between workers."""

from collections.abc import Sequence
from typing import Final

from hivemem_artifacts.endpoints.open_uploads import OpenUploads
from hivemem_artifacts.endpoints.reads import ArtifactReads
from hivemem_artifacts.endpoints.upload_commits import UploadCommits
from hivemem_artifacts.endpoints.uploads import Uploads
from hivemem_artifacts.endpoints.workspace_reads import WorkspaceReads
from hivemem_artifacts.ports import BlobStore
from hivemem_contracts.artifacts.chunks import (
    CONTENTS_PATTERN,
    HEADER_BYTES,
    WORKSPACES_PATTERN,
    commits_pattern,
    uploads_pattern,
)
from hivemem_contracts.artifacts.operations import COMMIT, GET, NAME, WORKSPACE_GET
from hivemem_contracts.limits import ARTIFACT_CHUNK_BYTES
from hivemem_runtime.background import Background
from hivemem_runtime.bus.connection import Client
from hivemem_runtime.bus.requests.discovery import Endpoint
from hivemem_runtime.bus.requests.raw_subjects import RawSubject
from hivemem_runtime.policy import Policy

CHUNKS_UNDER_WAY: Final = 128
"""The maximum number of chunks in memory, in each direction."""

_CHUNK_STEP: Final = 4_096


def chunk_bytes_for(max_payload: int) -> int:
    """Return the chunk size, the same for all workers of a server, so that a chunk and its headers fit the maximum
    payload."""
    return min(ARTIFACT_CHUNK_BYTES, (max_payload - HEADER_BYTES) // _CHUNK_STEP * _CHUNK_STEP)


class RawSubjects(Background):
    """Serves the raw subjects while the worker runs, and closes open uploads and the store at its end."""

    def __init__(
        self,
        store: BlobStore,
        open_uploads: OpenUploads,
        uploads: Uploads,
        commits: UploadCommits,
        reads: ArtifactReads,
        workspace_reads: WorkspaceReads,
        policy: Policy,
    ) -> None:
        self._store = store
        self._open_uploads = open_uploads
        self.uploads = uploads
        self.commits = commits
        self.reads = reads
        self._workspace_reads = workspace_reads
        chunks, forwarded = uploads_pattern(open_uploads.member), commits_pattern(open_uploads.member)
        limit = CHUNKS_UNDER_WAY
        self._subjects = (
            RawSubject(chunks, uploads.chunk, COMMIT, policy, name="chunk", under_way=limit),
            RawSubject(forwarded, commits.answer_forwarded, COMMIT, policy, name="forwarded_commit", under_way=limit),
            RawSubject(CONTENTS_PATTERN, reads.chunk, GET, policy, name="read", queue=NAME, under_way=limit),
            RawSubject(
                WORKSPACES_PATTERN,
                workspace_reads.bytes,
                WORKSPACE_GET,
                policy,
                name="read_workspace",
                queue=NAME,
                under_way=limit,
            ),
        )

    @property
    def endpoints(self) -> Sequence[Endpoint]:
        return [subject.endpoint for subject in self._subjects]

    async def start(self, client: Client) -> None:
        await self._store.check()
        chunk_bytes = chunk_bytes_for(client.max_payload)
        self.reads.chunk_bytes = self.uploads.chunk_bytes = self._workspace_reads.read_bytes = chunk_bytes
        self.commits.client = client
        for subject in self._subjects:
            await subject.start(client)

    async def stop(self) -> None:
        for subject in self._subjects:
            await subject.stop()
        await self._open_uploads.close()
        await self._store.close()
