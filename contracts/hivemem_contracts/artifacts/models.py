"""The shapes of artifacts on the wire."""

from typing import Annotated, Final, Literal

from pydantic import Field, StringConstraints

from hivemem_contracts.identifiers import Time
from hivemem_contracts.json_values import FromPython, Json
from hivemem_contracts.limits import ARTIFACT_DATA_CHARACTERS, ARTIFACT_INLINE_BYTES, ARTIFACT_METADATA_BYTES
from hivemem_contracts.model import ReplyBody
from hivemem_contracts.named_types import NamedType
from hivemem_contracts.sizes import MaxBytes

Sha256 = Annotated[
    str, StringConstraints(pattern=r"^[0-9a-f]{64}$"), NamedType("Sha256", "A SHA-256 hash, in hexadecimal.")
]
_TOKEN: Final = "[A-Za-z0-9][A-Za-z0-9!#$&^_.+-]*"
ContentType = Annotated[
    str,
    StringConstraints(max_length=255, pattern=rf"^{_TOKEN}/{_TOKEN}(?:; ?[!-~][ -~]*)?$"),
    NamedType("ContentType", "A media type, such as `text/plain; charset=utf-8`."),
]

ArtifactMetadata = Annotated[dict[str, Json], FromPython(), MaxBytes(ARTIFACT_METADATA_BYTES)]
Base64 = Annotated[
    str,
    MaxBytes(ARTIFACT_DATA_CHARACTERS + 2),
    NamedType(
        "Base64",
        f"At most {ARTIFACT_INLINE_BYTES:,} bytes in standard base64, with padding.",
        {
            "contentEncoding": "base64",
            "maxLength": ARTIFACT_DATA_CHARACTERS,
            "pattern": "^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$",
        },
    ),
]

Size = Annotated[int, Field(ge=0, le=2**53)]


class Artifact(ReplyBody):
    """One version of a file."""

    artifact_id: str = Field(description="Equal for all versions of a name in a session.")
    session_id: str = Field(description="Empty, like `name` and `url`, for bytes uploaded for a workspace.")
    name: str
    version: int = Field(
        description="Counts the saves of this name, without a gap; 0 for bytes uploaded for a workspace."
    )
    size: int
    sha256: str = Field(description="The hash of its bytes, in hexadecimal.")
    content_type: str = Field(
        description="Detected from the bytes, else the declared type, else derived from the name."
    )
    metadata: ArtifactMetadata
    url: str = Field(description="`hive://<tenant>/<session>/<name>?version=N`; the client resolves it.")
    created_by: str
    created_at: Time
    workspace_id: str | None = Field(default=None, description="The workspace that the bytes were uploaded for.")


class ManifestEntry(ReplyBody):
    """The newest version of a name."""

    name: str
    url: str
    timestamp: Time
    size: int
    sha256: str
    version: int
    content_type: str


UploadStatus = Literal["open", "committed", "aborted"]


class Upload(ReplyBody):
    """An upload under way, and where to continue it."""

    upload_id: str
    session_id: str = Field(description="Empty, like `name`, for an upload of a workspace.")
    name: str
    workspace_id: str | None = None
    status: UploadStatus
    chunk_subject: str = Field(description="The subject for chunks, each a request; `resume` returns a new one.")
    chunk_bytes: int = Field(description="The size of every chunk but the last.")
    next_chunk: int = Field(description="The first missing chunk.")
    expires_at: Time = Field(description="When it is abandoned and its chunks are deleted; every chunk extends it.")
    stored: bool = Field(description="True if the store has these bytes: commit without sending them.")
    put_url: str | None = Field(default=None, description="The URL to PUT the whole file to by HTTP, if requested.")
    artifact: Artifact | None = Field(default=None, description="The committed version, if any.")


class WorkspaceVersion(ReplyBody):
    """One version of a workspace: all its files at one moment."""

    workspace_id: str
    version: int = Field(description="Counts the commits of the workspace, without a gap.")
    files: int = Field(description="Number of files, links among them.")
    bytes: int = Field(description="Their total size.")
    added: int = Field(description="Number of paths that the version before did not have.")
    changed: int = Field(description="Number of paths with other bytes, another mode or another target.")
    removed: int = Field(description="Number of paths that only the version before had.")
    created_by: str
    created_at: Time
    agent_id: str | None = None
    cycle: int | None = None
    message: str | None = None
