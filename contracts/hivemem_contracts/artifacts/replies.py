"""The reply bodies of the artifacts service."""

from pydantic import Field

from hivemem_contracts.artifacts.models import Artifact, ManifestEntry
from hivemem_contracts.identifiers import Time
from hivemem_contracts.model import ReplyBody


class ArtifactContent(ReplyBody):
    """A file with its bytes, or with the way to them."""

    artifact: Artifact
    data_base64: str | None = Field(default=None, description="The bytes asked for, where they fit into one answer.")
    offset: int = Field(description="Where `data_base64` begins.")
    chunk_subject: str = Field(description="Where to ask for each chunk.")
    chunk_bytes: int = Field(description="The size of every chunk but the last.")
    get_url: str | None = Field(default=None, description="Where to get the whole by HTTP, where that was asked for.")
    get_url_expires_at: Time | None = None


class ArtifactPage(ReplyBody):
    items: list[Artifact]
    cursor: str | None


class UploadAborted(ReplyBody):
    upload_id: str
    aborted: bool = Field(description="False where it had ended before.")


class ArtifactDeleted(ReplyBody):
    """The receipt of a deletion."""

    session_id: str
    name: str
    version: int = Field(description="The deletion's own; a later file of this name goes on from here.")
    deleted_at: Time


class Manifest(ReplyBody):
    """What a session has."""

    items: list[ManifestEntry] = Field(description="By name.")
    cursor: str | None


class GarbageCollected(ReplyBody):
    """What a collection removed, or would remove."""

    dry_run: bool
    removed: int = Field(description="How many blobs: bytes that no artifact has any more.")
    bytes: int = Field(description="How many bytes of them.")
    kept: int = Field(description="How many without a use were spared by the grace time.")
    done: bool = Field(description="False where there is more than one answer takes on: ask again.")
