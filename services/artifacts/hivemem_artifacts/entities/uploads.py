"""Uploads: the request that began it, the worker that holds it, and its result."""

from dataclasses import dataclass, field
from typing import Any, Final, Literal

from hivemem_runtime.ledger.entity import Index, record_entity

UploadState = Literal["open", "committed", "aborted"]


@dataclass(frozen=True, slots=True)
class Upload:
    """An upload. Head and record have the same shape. `member` is the worker that holds it. Once it is committed,
    `version` is that of its artifact. An ended upload is kept until `expires_at` for retries."""

    session_id: str
    name: str
    begun_at: int
    expires_at: int
    chunk_bytes: int
    member: str
    size: int | None = None
    sha256: str | None = None
    content_type: str | None = None
    metadata: dict[str, Any] = field(default_factory=dict[str, Any])
    presigned: bool = False
    state: UploadState = "open"
    version: int | None = None
    workspace_id: str | None = None
    """The workspace of the bytes; session and name are then empty."""

    @property
    def open(self) -> bool:
        return self.state == "open"


UPLOAD: Final = record_entity(
    "upload",
    Upload,
    indexed=lambda upload: {"expires_at": upload.expires_at, "session_id": upload.session_id, "open": upload.open},
    indexes=(
        Index("expiry", (), "expires_at"),
        Index("session", ("session_id",), "expires_at", only="open"),
    ),
)
