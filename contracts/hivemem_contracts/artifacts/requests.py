"""The request bodies of the artifacts service."""

from typing import Annotated

from pydantic import ConfigDict, Field, StringConstraints, model_validator

from hivemem_contracts.artifacts.models import ArtifactMetadata, Base64, ContentType, Sha256, Size
from hivemem_contracts.artifacts.names import ArtifactName
from hivemem_contracts.artifacts.workspace_files import WorkspaceFile
from hivemem_contracts.field_rules import combination, refuses
from hivemem_contracts.fields import Cursor, ExpectedVersion, Limit, Version
from hivemem_contracts.identifiers import Id
from hivemem_contracts.limits import (
    ARTIFACT_NAME_BYTES,
    BATCH_ITEMS,
    LIST_DEFAULT,
    LIST_MAXIMUM,
    WORKSPACE_MESSAGE_CHARACTERS,
    WORKSPACE_PART_FILES,
)
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
    """Begin the upload of a file of any size, in chunks or by HTTP: of a session, or of a workspace."""

    model_config = ConfigDict(
        json_schema_extra=refuses(
            combination(missing=["session_id", "workspace_id"]),
            combination(missing=["name", "workspace_id"]),
            combination(given=["session_id", "workspace_id"]),
            combination(given=["name", "workspace_id"]),
        )
    )

    session_id: Id | None = Field(default=None, description="The session of the file.")
    name: ArtifactName | None = Field(default=None, description="The name of the file in its session.")
    workspace_id: Id | None = Field(
        default=None, description="In place of session and name: the bytes are for a version of this workspace."
    )
    size: Size | None = Field(default=None, description="Refuse any other size; an excessive one is refused at once.")
    sha256: Sha256 | None = Field(default=None, description="Refuse bytes with another hash.")
    content_type: ContentType | None = Field(default=None, description="The type, if the bytes do not reveal it.")
    metadata: ArtifactMetadata = Field(default_factory=dict)
    presigned: bool = Field(default=False, description="Return a URL to PUT the bytes to, instead of chunks.")

    @model_validator(mode="after")
    def _has_one_place(self) -> "BeginUpload":
        named = (self.session_id is not None, self.name is not None)
        if named != ((True, True) if self.workspace_id is None else (False, False)):
            raise ValueError("session_id and name, or workspace_id alone, have to be given")
        return self


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


class CheckWorkspace(RequestBody):
    """Find out which files have to be uploaded before a commit."""

    workspace_id: Id
    files: list[WorkspaceFile] = Field(max_length=WORKSPACE_PART_FILES)


class WorkspaceBlob(RequestBody):
    """The bytes of a small file."""

    data_base64: Base64 = Field(description="The bytes, at most 512 KiB for all blobs of the request.")
    sha256: Sha256 | None = Field(default=None, description="Refuse bytes with another hash.")


class SaveWorkspaceBlobs(RequestBody):
    """Upload the bytes of many small files in one request."""

    workspace_id: Id
    blobs: list[WorkspaceBlob] = Field(min_length=1, max_length=BATCH_ITEMS)


class CommitWorkspace(RequestBody):
    """Commit a list of files as the next version of a workspace."""

    model_config = ConfigDict(
        json_schema_extra=refuses(
            combination(missing=["files", "list_sha256"]), combination(given=["files", "list_sha256"])
        )
    )

    workspace_id: Id
    files: list[WorkspaceFile] | None = Field(
        default=None, max_length=WORKSPACE_PART_FILES, description="All files of the version, in any order."
    )
    list_sha256: Sha256 | None = Field(
        default=None, description="In place of `files`: the hash of an uploaded blob, which holds them as a JSON array."
    )
    agent_id: Id | None = Field(default=None, description="The agent whose cycle made this version.")
    cycle: Annotated[int, Field(ge=1, le=2**53)] | None = Field(default=None, description="The number of that cycle.")
    message: Annotated[str, StringConstraints(max_length=WORKSPACE_MESSAGE_CHARACTERS)] | None = Field(
        default=None, description="What this version is, for people."
    )
    expect_version: ExpectedVersion | None = None

    @model_validator(mode="after")
    def _has_one_list(self) -> "CommitWorkspace":
        if (self.files is None) == (self.list_sha256 is None):
            raise ValueError("one of files and list_sha256 has to be given")
        return self


class GetWorkspace(RequestBody):
    """List the files of a version by path."""

    workspace_id: Id
    version: Version | None = Field(default=None, description="The newest if left out.")
    prefix: NamePrefix | None = Field(default=None, description="Only paths with this prefix.")
    limit: Limit = LIST_DEFAULT
    cursor: Cursor | None = None


class ListWorkspaceVersions(RequestBody):
    """List the versions of a workspace, newest first."""

    workspace_id: Id
    limit: Limit = LIST_DEFAULT
    cursor: Cursor | None = None


class ListWorkspaces(RequestBody):
    limit: Limit = LIST_DEFAULT
    cursor: Cursor | None = None


class DiffWorkspace(RequestBody):
    # `from` is a word of Python, so Python says `start` and `end`; the wire has the aliases only.
    model_config = ConfigDict(validate_by_name=True, validate_by_alias=True)

    workspace_id: Id
    start: Version = Field(validation_alias="from", serialization_alias="from")
    end: Version = Field(validation_alias="to", serialization_alias="to")
    limit: Limit = LIST_DEFAULT
    cursor: Cursor | None = None


class DeleteWorkspace(RequestBody):
    workspace_id: Id
