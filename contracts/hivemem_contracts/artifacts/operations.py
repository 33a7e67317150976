"""Each operation of the artifacts service, declared once."""

from typing import Final

from hivemem_contracts.artifacts import replies, requests
from hivemem_contracts.artifacts.models import Artifact, Upload, WorkspaceVersion
from hivemem_contracts.errors import NotFound, RevisionConflict, TooLarge
from hivemem_contracts.operations import Operation, ServiceContract

NAME: Final = "artifacts"

SAVE = Operation(
    NAME,
    "save",
    requests.SaveArtifact,
    Artifact,
    summary="Save a small file as the next version of its name.",
    writes=True,
    route="session_id",
    errors=(TooLarge,),
)
BEGIN = Operation(
    NAME,
    "begin",
    requests.BeginUpload,
    Upload,
    summary="Begin to upload a file of any size.",
    writes=True,
    durable=False,
    errors=(TooLarge,),
)
RESUME = Operation(
    NAME,
    "resume",
    requests.ResumeUpload,
    Upload,
    summary="Resume an upload, at any worker.",
    writes=True,
    durable=False,
    errors=(NotFound,),
)
COMMIT = Operation(
    NAME,
    "commit",
    requests.CommitUpload,
    Artifact,
    summary="Make the uploaded bytes the next version of their name.",
    writes=True,
    durable=False,
    errors=(NotFound, TooLarge),
)
ABORT = Operation(
    NAME,
    "abort",
    requests.AbortUpload,
    replies.UploadAborted,
    summary="Abandon an upload, and delete its chunks.",
    writes=True,
    durable=False,
    errors=(NotFound,),
)
GET = Operation(
    NAME,
    "get",
    requests.GetArtifact,
    replies.ArtifactContent,
    summary="Read a file: its bytes or a range of them if one answer can hold them, else the subject to read.",
    errors=(NotFound, TooLarge),
)
STAT = Operation(
    NAME,
    "stat",
    requests.StatArtifact,
    Artifact,
    summary="Read the metadata of a file, without its bytes.",
    errors=(NotFound,),
)
LIST = Operation(
    NAME,
    "list",
    requests.ListArtifacts,
    replies.ArtifactPage,
    summary="List the files of a session by name, each at its newest version.",
)
VERSIONS = Operation(
    NAME,
    "versions",
    requests.ListVersions,
    replies.ArtifactPage,
    summary="List the versions of a file, newest first.",
    errors=(NotFound,),
)
DELETE = Operation(
    NAME,
    "delete",
    requests.DeleteArtifact,
    replies.ArtifactDeleted,
    summary="Remove a file with all its versions.",
    writes=True,
    route="session_id",
    errors=(NotFound,),
)
MANIFEST = Operation(
    NAME,
    "manifest",
    requests.ReadManifest,
    replies.Manifest,
    summary="Read the manifest of a session: each file with its URL, time, size, hash and version.",
)
GC = Operation(
    NAME,
    "gc",
    requests.CollectGarbage,
    replies.GarbageCollected,
    summary="Delete unused bytes, or report which would be deleted.",
    writes=True,
    durable=False,
)

WORKSPACE_CHECK = Operation(
    NAME,
    "workspace_check",
    requests.CheckWorkspace,
    replies.WorkspaceChecked,
    summary="Return which files of a list are not stored yet.",
)
WORKSPACE_SAVE = Operation(
    NAME,
    "workspace_save",
    requests.SaveWorkspaceBlobs,
    replies.WorkspaceBlobsSaved,
    summary="Upload many small files for a version of a workspace.",
    writes=True,
    durable=False,
    errors=(TooLarge,),
)
WORKSPACE_COMMIT = Operation(
    NAME,
    "workspace_commit",
    requests.CommitWorkspace,
    WorkspaceVersion,
    summary="Make a list of uploaded files the next version of a workspace.",
    writes=True,
    route="workspace_id",
    errors=(NotFound, RevisionConflict, TooLarge),
)
WORKSPACE_GET = Operation(
    NAME,
    "workspace_get",
    requests.GetWorkspace,
    replies.WorkspacePage,
    summary="List the files of a version of a workspace, and the subject to read their bytes from.",
    errors=(NotFound,),
)
WORKSPACE_VERSIONS = Operation(
    NAME,
    "workspace_versions",
    requests.ListWorkspaceVersions,
    replies.WorkspaceVersionPage,
    summary="List the versions of a workspace, newest first.",
    errors=(NotFound,),
)
WORKSPACE_LIST = Operation(
    NAME,
    "workspace_list",
    requests.ListWorkspaces,
    replies.WorkspaceVersionPage,
    summary="List the workspaces by id, each at its newest version.",
)
WORKSPACE_DIFF = Operation(
    NAME,
    "workspace_diff",
    requests.DiffWorkspace,
    replies.WorkspaceDiff,
    summary="List how the files of a workspace differ between two versions.",
    errors=(NotFound,),
)
WORKSPACE_DELETE = Operation(
    NAME,
    "workspace_delete",
    requests.DeleteWorkspace,
    replies.WorkspaceDeleted,
    summary="Remove a workspace with all its versions.",
    writes=True,
    route="workspace_id",
    errors=(NotFound,),
)

ARTIFACTS: Final = ServiceContract(
    NAME,
    "Artifacts: files of a session, versioned, of any size, and workspaces, folders as a whole.",
    (
        SAVE,
        BEGIN,
        RESUME,
        COMMIT,
        ABORT,
        GET,
        STAT,
        LIST,
        VERSIONS,
        DELETE,
        MANIFEST,
        GC,
        WORKSPACE_CHECK,
        WORKSPACE_SAVE,
        WORKSPACE_COMMIT,
        WORKSPACE_GET,
        WORKSPACE_VERSIONS,
        WORKSPACE_LIST,
        WORKSPACE_DIFF,
        WORKSPACE_DELETE,
    ),
)
