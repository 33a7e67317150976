"""The wiring of the artifacts worker. Only this module chooses adapters."""

from typing import Final, Literal

from pydantic import Field, SecretStr

from hivemem_artifacts.adapters.filesystem import FilesystemBlobs
from hivemem_artifacts.endpoints import bind, bind_workspaces
from hivemem_artifacts.endpoints.blob_references import BlobReferences
from hivemem_artifacts.endpoints.deletions import ArtifactDeleter
from hivemem_artifacts.endpoints.garbage_collection import GarbageCollector
from hivemem_artifacts.endpoints.open_uploads import OpenUploads
from hivemem_artifacts.endpoints.raw_subjects import RawSubjects
from hivemem_artifacts.endpoints.reads import ArtifactReads
from hivemem_artifacts.endpoints.upload_commits import UploadCommits
from hivemem_artifacts.endpoints.uploads import Uploads
from hivemem_artifacts.endpoints.workspace_commits import WorkspaceCommits
from hivemem_artifacts.endpoints.workspace_deletions import WorkspaceDeleter
from hivemem_artifacts.endpoints.workspace_listings import Listings
from hivemem_artifacts.endpoints.workspace_reads import WorkspaceReads
from hivemem_artifacts.entities import ENTITIES
from hivemem_artifacts.ports import BlobStore
from hivemem_artifacts.reactions import reactions
from hivemem_artifacts.reactions.kept_values import ForkedValues
from hivemem_artifacts.reactions.sessions import SessionFiles
from hivemem_artifacts.reactions.upkeep import Upkeep
from hivemem_artifacts.reactions.views import SessionViews
from hivemem_contracts.artifacts.operations import ARTIFACTS
from hivemem_contracts.identifiers import new_id
from hivemem_contracts.limits import ARTIFACT_BYTES
from hivemem_runtime.bus.feed.announcer import Announcer
from hivemem_runtime.bus.requests.outgoing import Asking
from hivemem_runtime.ledger.opening import open_ledger
from hivemem_runtime.program import WorkerKind
from hivemem_runtime.service import Service
from hivemem_runtime.settings import SettingsError, WorkerSettings
from hivemem_runtime.worker import Parts, Worker


class ArtifactsSettings(WorkerSettings):
    blobs: Literal["filesystem", "minio"] = Field(default="filesystem", description="Where bytes are kept.")
    minio_url: str = Field(default="http://127.0.0.1:9000", description="An object store that speaks S3.")
    minio_public_url: str = Field(
        default="", description="Where clients reach it, if they do so elsewhere: presigned URLs lead there."
    )
    minio_access_key: str = "hivemem"
    minio_secret_key: SecretStr = SecretStr("")
    minio_bucket: str = Field(default="hivemem", pattern=r"^[a-z0-9][a-z0-9-]{1,61}[a-z0-9]$")
    artifact_bytes: int = Field(default=ARTIFACT_BYTES, ge=1, le=ARTIFACT_BYTES, description="The largest file.")
    upload_seconds: int = Field(
        default=86_400, ge=1, le=30 * 86_400, description="After so long without a chunk an upload is given up."
    )
    gc_seconds: int = Field(
        default=3_600, ge=1, description="How often unused bytes are collected, and how long they are spared."
    )


def open_store(settings: ArtifactsSettings) -> BlobStore:
    if settings.blobs == "filesystem":
        return FilesystemBlobs(settings.data)
    try:
        from hivemem_artifacts.adapters.objects import ObjectBlobs  # its client is an extra
    except ImportError as error:
        raise SettingsError(
            f"HIVEMEM_BLOBS=minio needs a client that is not installed: hivemem-artifacts[minio] ({error})"
        ) from error
    return ObjectBlobs(
        settings.minio_url,
        settings.minio_access_key,
        settings.minio_secret_key.get_secret_value(),
        settings.minio_bucket,
        public_url=settings.minio_public_url or None,
    )


def build(settings: ArtifactsSettings) -> Worker:
    ledger = open_ledger(settings, ENTITIES, "artifacts")
    announcer = Announcer(ledger, ENTITIES)
    store = open_store(settings)
    largest = min(settings.artifact_bytes, store.largest)
    upload_seconds = settings.upload_seconds
    open_uploads = OpenUploads(ledger, store, new_id(), largest=largest, upload_seconds=upload_seconds)
    service = Service(ARTIFACTS, ledger, settings.policy())
    references = BlobReferences(ledger, store)
    deleter = ArtifactDeleter(ledger, announcer)
    listings = Listings(ledger, references)
    workspace_reads = WorkspaceReads(ledger, store, listings)
    workspace_deleter = WorkspaceDeleter(ledger, announcer, listings)
    collector = GarbageCollector(ledger, store, listings, settings.gc_seconds)
    commits = UploadCommits(ledger, references, open_uploads)
    uploads = Uploads(ledger, store, open_uploads, commits, largest=largest, upload_seconds=upload_seconds)
    reads = ArtifactReads(ledger, store)
    raw = RawSubjects(store, open_uploads, uploads, commits, reads, workspace_reads, service.policy)
    bind(service, raw, references=references, deleter=deleter, collector=collector, largest=largest)
    bind_workspaces(
        service,
        references=references,
        commits=WorkspaceCommits(ledger, store, listings),
        reads=workspace_reads,
        deleter=workspace_deleter,
        largest=largest,
    )
    views = SessionViews(ledger, store)
    asking = Asking()
    forked_values = ForkedValues(ledger, deleter, asking)
    upkeep = Upkeep(
        ledger,
        store,
        announcer,
        open_uploads,
        deleter,
        workspace_deleter,
        collector,
        views,
        forked_values,
        upload_seconds=upload_seconds,
        gc_seconds=settings.gc_seconds,
    )
    session_files = SessionFiles(ledger, deleter, open_uploads, forked_values)
    return Worker(
        settings,
        Parts(
            service,
            ledger,
            announcer,
            reactions=reactions(views, session_files),
            background=(asking, raw, upkeep),
        ),
    )


WORKER: Final = WorkerKind(ARTIFACTS, ArtifactsSettings, build)
