"""The operations of the artifacts service. A write commits a decision; a read asks an index."""

from hivemem_artifacts.endpoints import (
    artifact_lists,
    deletions,
    garbage_collection,
    reads,
    saves,
    upload_commits,
    uploads,
    workspace_commits,
    workspace_deletions,
    workspace_reads,
    workspace_uploads,
)
from hivemem_artifacts.endpoints.blob_references import BlobReferences
from hivemem_artifacts.endpoints.deletions import ArtifactDeleter
from hivemem_artifacts.endpoints.garbage_collection import GarbageCollector
from hivemem_artifacts.endpoints.raw_subjects import RawSubjects
from hivemem_artifacts.endpoints.workspace_commits import WorkspaceCommits
from hivemem_artifacts.endpoints.workspace_deletions import WorkspaceDeleter
from hivemem_artifacts.endpoints.workspace_reads import WorkspaceReads
from hivemem_runtime.service import Service


def bind(
    service: Service,
    raw: RawSubjects,
    *,
    references: BlobReferences,
    deleter: ArtifactDeleter,
    collector: GarbageCollector,
    largest: int,
) -> None:
    saves.bind(service, references, largest)
    artifact_lists.bind(service)
    reads.bind(service, raw.reads)
    uploads.bind(service, raw.uploads)
    upload_commits.bind(service, raw.commits)
    deletions.bind(service, deleter)
    garbage_collection.bind(service, collector)


def bind_workspaces(
    service: Service,
    *,
    references: BlobReferences,
    commits: WorkspaceCommits,
    reads: WorkspaceReads,
    deleter: WorkspaceDeleter,
    largest: int,
) -> None:
    workspace_uploads.bind(service, references, largest)
    workspace_commits.bind(service, commits)
    workspace_reads.bind(service, reads)
    workspace_deletions.bind(service, deleter)
