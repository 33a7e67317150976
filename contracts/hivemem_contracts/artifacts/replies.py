"""The reply bodies of the artifacts service."""

from typing import Literal

from pydantic import Field

from hivemem_contracts.artifacts.models import Artifact, ManifestEntry, WorkspaceVersion
from hivemem_contracts.artifacts.workspace_files import WorkspaceEntry
from hivemem_contracts.identifiers import Time
from hivemem_contracts.model import ReplyBody


class ArtifactContent(ReplyBody):
    """A file with its bytes, or with the subject or URL to read them from."""

    artifact: Artifact
    data_base64: str | None = Field(default=None, description="The requested bytes, if they fit into one answer.")
    offset: int = Field(description="The offset of `data_base64`.")
    chunk_subject: str = Field(description="The subject to request each chunk from.")
    chunk_bytes: int = Field(description="The size of every chunk but the last.")
    get_url: str | None = Field(default=None, description="The URL to GET the whole file from by HTTP, if requested.")
    get_url_expires_at: Time | None = None


class ArtifactPage(ReplyBody):
    items: list[Artifact]
    cursor: str | None


class UploadAborted(ReplyBody):
    upload_id: str
    aborted: bool = Field(description="False if it had ended before.")


class ArtifactDeleted(ReplyBody):
    """The receipt of a deletion."""

    session_id: str
    name: str
    version: int = Field(description="The version of the deletion; a later file of this name continues above it.")
    deleted_at: Time
    duplicate: bool = Field(
        default=False, description="True if this request deleted the file before: the first result again."
    )


class Manifest(ReplyBody):
    """A page of the files of a session."""

    items: list[ManifestEntry] = Field(description="By name.")
    cursor: str | None


class GarbageCollected(ReplyBody):
    """The bytes that a collection deleted, or would delete."""

    dry_run: bool
    removed: int = Field(description="Number of unused blobs.")
    bytes: int = Field(description="Their total size.")
    kept: int = Field(description="Number of unused blobs kept by the grace time.")
    done: bool = Field(description="False if there is more work than one request does: ask again.")


class WorkspaceChecked(ReplyBody):
    missing: list[str] = Field(description="The hashes of the files that have to be uploaded.")


class StoredWorkspaceBlob(ReplyBody):
    sha256: str
    size: int


class WorkspaceBlobsSaved(ReplyBody):
    items: list[StoredWorkspaceBlob] = Field(description="In the order of the request.")


class WorkspacePage(ReplyBody):
    """A page of the files of a version."""

    workspace: WorkspaceVersion
    items: list[WorkspaceEntry] = Field(description="By path.")
    cursor: str | None
    read_subject: str = Field(description="The subject to read the bytes of files from.")
    read_bytes: int = Field(description="The most bytes that one request to it reads.")


class WorkspaceVersionPage(ReplyBody):
    items: list[WorkspaceVersion]
    cursor: str | None


WorkspaceChangeKind = Literal["added", "changed", "removed"]


class WorkspaceDifference(ReplyBody):
    """How one path differs between two versions."""

    path: str
    change: WorkspaceChangeKind
    before: WorkspaceEntry | None = None
    after: WorkspaceEntry | None = None


class WorkspaceDiff(ReplyBody):
    items: list[WorkspaceDifference] = Field(description="By path.")
    cursor: str | None


class WorkspaceDeleted(ReplyBody):
    """The receipt of a deletion."""

    workspace_id: str
    version: int = Field(description="The version of the deletion; a later workspace of this id continues above it.")
    deleted_at: Time
    duplicate: bool = Field(
        default=False, description="True if this request deleted the workspace before: the first result again."
    )
