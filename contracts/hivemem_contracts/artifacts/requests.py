"""The request bodies of the artifacts service."""

from typing import Annotated

from pydantic import Field, StringConstraints

from hivemem_contracts.artifacts.models import ArtifactMetadata, Base64, ContentType, Sha256, Size
from hivemem_contracts.artifacts.names import ArtifactName
from hivemem_contracts.fields import Cursor, Limit, Version
from hivemem_contracts.identifiers import Id
from hivemem_contracts.limits import ARTIFACT_NAME_BYTES, LIST_DEFAULT, LIST_MAXIMUM
from hivemem_contracts.model import RequestBody
from hivemem_contracts.patterns import NO_CONTROL

NamePrefix = Annotated[str, StringConstraints(min_length=1, max_length=ARTIFACT_NAME_BYTES, pattern=NO_CONTROL)]
Grace = Annotated[int, Field(ge=0, le=2**31)]


class SaveArtifact(RequestBody):
    """Save a small file in one request."""

    session_id: Id
    name: ArtifactName
    data_base64: Base64 = Field(description="The bytes, at most 512 KiB.")
    content_type: ContentType | None = Field(default=None, description="The type, if the bytes do not reveal it.")
    metadata: ArtifactMetadata = Field(default_factory=dict)
    sha256: Sha256 | None = Field(default=None, description="Refuse bytes with another hash.")


class BeginUpload(RequestBody):
    """Begin the upload of a file of any size, in chunks or by HTTP."""

    session_id: Id
    name: ArtifactName
    size: Size | None = Field(default=None, description="Refuse any other size; an excessive one is refused at once.")
    sha256: Sha256 | None = Field(default=None, description="Refuse bytes with another hash.")
    content_type: ContentType | None = Field(default=None, description="The type, if the bytes do not reveal it.")
    metadata: ArtifactMetadata = Field(default_factory=dict)
    presigned: bool = Field(default=False, description="Return a URL to PUT the bytes to, instead of chunks.")


class ResumeUpload(RequestBody):
    upload_id: Id


class CommitUpload(RequestBody):
    upload_id: Id
    sha256: Sha256 | None = Field(default=None, description="Refuse bytes with another hash.")
    size: Size | None = Field(default=None, description="Refuse any other size.")


class AbortUpload(RequestBody):
    upload_id: Id


class GetArtifact(RequestBody):
    session_id: Id
    name: ArtifactName
    version: Version | None = Field(default=None, description="The newest if left out.")
    offset: Size | None = Field(default=None, description="The first byte to read.")
    length: Size | None = Field(default=None, description="Number of bytes, at most 512 KiB in one answer.")
    presigned: bool = Field(default=False, description="Return a URL to GET the bytes from.")


class StatArtifact(RequestBody):
    session_id: Id
    name: ArtifactName
    version: Version | None = Field(default=None, description="The newest if left out.")


class ListArtifacts(RequestBody):
    session_id: Id
    prefix: NamePrefix | None = Field(default=None, description="Only names with this prefix.")
    limit: Limit = LIST_DEFAULT
    cursor: Cursor | None = None


class ListVersions(RequestBody):
    """List the versions of a file, newest first."""

    session_id: Id
    name: ArtifactName
    limit: Limit = LIST_DEFAULT
    cursor: Cursor | None = None


class DeleteArtifact(RequestBody):
    session_id: Id
    name: ArtifactName


class ReadManifest(RequestBody):
    session_id: Id
    limit: Limit = LIST_MAXIMUM
    cursor: Cursor | None = None


class CollectGarbage(RequestBody):
    dry_run: bool = Field(default=False, description="Delete nothing, only report.")
    grace_seconds: Grace | None = Field(
        default=None, description="Keep bytes that became unused more recently; the worker's setting if left out."
    )
