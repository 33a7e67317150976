"""The operations of artifacts as methods, generated from the contracts by `make docs`."""

from collections.abc import Sequence

from hivemem.methods import ServiceMethods, reads, writes
from hivemem_contracts.artifacts import operations
from hivemem_contracts.artifacts.models import Artifact, Upload, WorkspaceVersion
from hivemem_contracts.artifacts.replies import (
    ArtifactContent,
    ArtifactDeleted,
    ArtifactPage,
    GarbageCollected,
    Manifest,
    UploadAborted,
    WorkspaceBlobsSaved,
    WorkspaceChecked,
    WorkspaceDeleted,
    WorkspaceDiff,
    WorkspacePage,
    WorkspaceVersionPage,
)
from hivemem_contracts.artifacts.requests import WorkspaceBlob
from hivemem_contracts.artifacts.workspace_files import WorkspaceFile
from hivemem_contracts.json_values import Json


class ArtifactsOperations(ServiceMethods):
    """Artifacts: files of a session, versioned, of any size, and workspaces, folders as a whole."""

    @writes(operations.SAVE)
    async def save(
        self,
        *,
        session_id: str,
        name: str,
        data_base64: str,
        content_type: str | None = None,
        metadata: dict[str, Json] | None = None,
        sha256: str | None = None,
    ) -> Artifact:
        """Save a small file as the next version of its name.

        Args:
            data_base64: The bytes, at most 512 KiB.
            content_type: The type, if the bytes do not reveal it.
            sha256: Refuse bytes with another hash.

        Raises:
            TooLarge: A value exceeds its limit; the context has `field`, `limit` and `actual`.
            HiveError: As any operation: InvalidRequest, Forbidden, Overloaded, Internal, Unavailable,
                IdempotencyConflict.
        """
        return await self._send(operations.SAVE, locals())

    @writes(operations.BEGIN)
    async def begin(
        self,
        *,
        session_id: str | None = None,
        name: str | None = None,
        workspace_id: str | None = None,
        size: int | None = None,
        sha256: str | None = None,
        content_type: str | None = None,
        metadata: dict[str, Json] | None = None,
        presigned: bool = False,
    ) -> Upload:
        """Begin to upload a file of any size.

        Args:
            session_id: The session of the file.
            name: The name of the file in its session.
            workspace_id: In place of session and name: the bytes are for a version of this workspace.
            size: Refuse any other size; an excessive one is refused at once.
            sha256: Refuse bytes with another hash.
            content_type: The type, if the bytes do not reveal it.
            presigned: Return a URL to PUT the bytes to, instead of chunks.

        Raises:
            TooLarge: A value exceeds its limit; the context has `field`, `limit` and `actual`.
            HiveError: As any operation: InvalidRequest, Forbidden, Overloaded, Internal, Unavailable,
                IdempotencyConflict.
        """
        return await self._send(operations.BEGIN, locals())

    @writes(operations.RESUME)
    async def resume(
        self,
        *,
        upload_id: str,
    ) -> Upload:
        """Resume an upload, at any worker.

        Raises:
            NotFound: No such session, memory, artifact, agent, window or version.
            HiveError: As any operation: InvalidRequest, Forbidden, TooLarge, Overloaded, Internal, Unavailable,
                IdempotencyConflict.
        """
        return await self._send(operations.RESUME, locals())

    @writes(operations.COMMIT)
    async def commit(
        self,
        *,
        upload_id: str,
        sha256: str | None = None,
        size: int | None = None,
    ) -> Artifact:
        """Make the uploaded bytes the next version of their name.

        Args:
            sha256: Refuse bytes with another hash.
            size: Refuse any other size.

        Raises:
            NotFound: No such session, memory, artifact, agent, window or version.
            TooLarge: A value exceeds its limit; the context has `field`, `limit` and `actual`.
            HiveError: As any operation: InvalidRequest, Forbidden, Overloaded, Internal, Unavailable,
                IdempotencyConflict.
        """
        return await self._send(operations.COMMIT, locals())

    @writes(operations.ABORT)
    async def abort(
        self,
        *,
        upload_id: str,
    ) -> UploadAborted:
        """Abandon an upload, and delete its chunks.

        Raises:
            NotFound: No such session, memory, artifact, agent, window or version.
            HiveError: As any operation: InvalidRequest, Forbidden, TooLarge, Overloaded, Internal, Unavailable,
                IdempotencyConflict.
        """
        return await self._send(operations.ABORT, locals())

    @reads(operations.GET)
    async def get(
        self,
        *,
        session_id: str,
        name: str,
        version: int | None = None,
        offset: int | None = None,
        length: int | None = None,
        presigned: bool = False,
    ) -> ArtifactContent:
        """Read a file: its bytes or a range of them if one answer can hold them, else the subject to read.

        Args:
            version: The newest if left out.
            offset: The first byte to read.
            length: Number of bytes, at most 512 KiB in one answer.
            presigned: Return a URL to GET the bytes from.

        Raises:
            NotFound: No such session, memory, artifact, agent, window or version.
            TooLarge: A value exceeds its limit; the context has `field`, `limit` and `actual`.
            HiveError: As any operation: InvalidRequest, Forbidden, Overloaded, Internal, Unavailable.
        """
        return await self._send(operations.GET, locals())

    @reads(operations.STAT)
    async def stat(
        self,
        *,
        session_id: str,
        name: str,
        version: int | None = None,
    ) -> Artifact:
        """Read the metadata of a file, without its bytes.

        Args:
            version: The newest if left out.

        Raises:
            NotFound: No such session, memory, artifact, agent, window or version.
            HiveError: As any operation: InvalidRequest, Forbidden, TooLarge, Overloaded, Internal, Unavailable.
        """
        return await self._send(operations.STAT, locals())

    @reads(operations.LIST)
    async def list(
        self,
        *,
        session_id: str,
        prefix: str | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> ArtifactPage:
        """List the files of a session by name, each at its newest version.

        Args:
            prefix: Only names with this prefix.
            limit: From 1 to 1000.
            cursor: The cursor of the previous page.

        Raises:
            HiveError: As any operation: InvalidRequest, Forbidden, TooLarge, Overloaded, Internal, Unavailable.
        """
        return await self._send(operations.LIST, locals())

    @reads(operations.VERSIONS)
    async def versions(
        self,
        *,
        session_id: str,
        name: str,
        limit: int = 50,
        cursor: str | None = None,
    ) -> ArtifactPage:
        """List the versions of a file, newest first.

        Args:
            limit: From 1 to 1000.
            cursor: The cursor of the previous page.

        Raises:
            NotFound: No such session, memory, artifact, agent, window or version.
            HiveError: As any operation: InvalidRequest, Forbidden, TooLarge, Overloaded, Internal, Unavailable.
        """
        return await self._send(operations.VERSIONS, locals())

    @writes(operations.DELETE)
    async def delete(
        self,
        *,
        session_id: str,
        name: str,
    ) -> ArtifactDeleted:
        """Remove a file with all its versions.

        Raises:
            NotFound: No such session, memory, artifact, agent, window or version.
            HiveError: As any operation: InvalidRequest, Forbidden, TooLarge, Overloaded, Internal, Unavailable,
                IdempotencyConflict.
        """
        return await self._send(operations.DELETE, locals())

    @reads(operations.MANIFEST)
    async def manifest(
        self,
        *,
        session_id: str,
        limit: int = 1000,
        cursor: str | None = None,
    ) -> Manifest:
        """Read the manifest of a session: each file with its URL, time, size, hash and version.

        Args:
            limit: From 1 to 1000.
            cursor: The cursor of the previous page.

        Raises:
            HiveError: As any operation: InvalidRequest, Forbidden, TooLarge, Overloaded, Internal, Unavailable.
        """
        return await self._send(operations.MANIFEST, locals())

    @writes(operations.GC)
    async def gc(
        self,
        *,
        dry_run: bool = False,
        grace_seconds: int | None = None,
    ) -> GarbageCollected:
        """Delete unused bytes, or report which would be deleted.

        Args:
            dry_run: Delete nothing, only report.
            grace_seconds: Keep bytes that became unused more recently; the worker's setting if left out. From 0 to
                2147483648.

        Raises:
            HiveError: As any operation: InvalidRequest, Forbidden, TooLarge, Overloaded, Internal, Unavailable,
                IdempotencyConflict.
        """
        return await self._send(operations.GC, locals())

    @reads(operations.WORKSPACE_CHECK)
    async def workspace_check(
        self,
        *,
        workspace_id: str,
        files: Sequence[WorkspaceFile],
    ) -> WorkspaceChecked:
        """Return which files of a list are not stored yet.

        Raises:
            HiveError: As any operation: InvalidRequest, Forbidden, TooLarge, Overloaded, Internal, Unavailable.
        """
        return await self._send(operations.WORKSPACE_CHECK, locals())

    @writes(operations.WORKSPACE_SAVE)
    async def workspace_save(
        self,
        *,
        workspace_id: str,
        blobs: Sequence[WorkspaceBlob],
    ) -> WorkspaceBlobsSaved:
        """Upload many small files for a version of a workspace.

        Raises:
            TooLarge: A value exceeds its limit; the context has `field`, `limit` and `actual`.
            HiveError: As any operation: InvalidRequest, Forbidden, Overloaded, Internal, Unavailable,
                IdempotencyConflict.
        """
        return await self._send(operations.WORKSPACE_SAVE, locals())

    @writes(operations.WORKSPACE_COMMIT)
    async def workspace_commit(
        self,
        *,
        workspace_id: str,
        files: Sequence[WorkspaceFile] | None = None,
        list_sha256: str | None = None,
        agent_id: str | None = None,
        cycle: int | None = None,
        message: str | None = None,
        expect_version: int | None = None,
    ) -> WorkspaceVersion:
        """Make a list of uploaded files the next version of a workspace.

        Args:
            files: All files of the version, in any order.
            list_sha256: In place of `files`: the hash of an uploaded blob, which holds them as a JSON array.
            agent_id: The agent whose cycle made this version.
            cycle: The number of that cycle.
            message: What this version is, for people.
            expect_version: Refuse with RevisionConflict unless this is the current version; 0: must not exist.

        Raises:
            NotFound: No such session, memory, artifact, agent, window or version.
            RevisionConflict: `expect_revision` or `expect_version` does not match; the context has `expected` and
                `actual`.
            TooLarge: A value exceeds its limit; the context has `field`, `limit` and `actual`.
            HiveError: As any operation: InvalidRequest, Forbidden, Overloaded, Internal, Unavailable,
                IdempotencyConflict.
        """
        return await self._send(operations.WORKSPACE_COMMIT, locals())

    @reads(operations.WORKSPACE_GET)
    async def workspace_get(
        self,
        *,
        workspace_id: str,
        version: int | None = None,
        prefix: str | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> WorkspacePage:
        """List the files of a version of a workspace, and the subject to read their bytes from.

        Args:
            version: The newest if left out.
            prefix: Only paths with this prefix.
            limit: From 1 to 1000.
            cursor: The cursor of the previous page.

        Raises:
            NotFound: No such session, memory, artifact, agent, window or version.
            HiveError: As any operation: InvalidRequest, Forbidden, TooLarge, Overloaded, Internal, Unavailable.
        """
        return await self._send(operations.WORKSPACE_GET, locals())

    @reads(operations.WORKSPACE_VERSIONS)
    async def workspace_versions(
        self,
        *,
        workspace_id: str,
        limit: int = 50,
        cursor: str | None = None,
    ) -> WorkspaceVersionPage:
        """List the versions of a workspace, newest first.

        Args:
            limit: From 1 to 1000.
            cursor: The cursor of the previous page.

        Raises:
            NotFound: No such session, memory, artifact, agent, window or version.
            HiveError: As any operation: InvalidRequest, Forbidden, TooLarge, Overloaded, Internal, Unavailable.
        """
        return await self._send(operations.WORKSPACE_VERSIONS, locals())

    @reads(operations.WORKSPACE_LIST)
    async def workspace_list(
        self,
        *,
        limit: int = 50,
        cursor: str | None = None,
    ) -> WorkspaceVersionPage:
        """List the workspaces by id, each at its newest version.

        Args:
            limit: From 1 to 1000.
            cursor: The cursor of the previous page.

        Raises:
            HiveError: As any operation: InvalidRequest, Forbidden, TooLarge, Overloaded, Internal, Unavailable.
        """
        return await self._send(operations.WORKSPACE_LIST, locals())

    @reads(operations.WORKSPACE_DIFF)
    async def workspace_diff(
        self,
        *,
        workspace_id: str,
        start: int,
        end: int,
        limit: int = 50,
        cursor: str | None = None,
    ) -> WorkspaceDiff:
        """List how the files of a workspace differ between two versions.

        Args:
            limit: From 1 to 1000.
            cursor: The cursor of the previous page.

        Raises:
            NotFound: No such session, memory, artifact, agent, window or version.
            HiveError: As any operation: InvalidRequest, Forbidden, TooLarge, Overloaded, Internal, Unavailable.
        """
        return await self._send(operations.WORKSPACE_DIFF, locals())

    @writes(operations.WORKSPACE_DELETE)
    async def workspace_delete(
        self,
        *,
        workspace_id: str,
    ) -> WorkspaceDeleted:
        """Remove a workspace with all its versions.

        Raises:
            NotFound: No such session, memory, artifact, agent, window or version.
            HiveError: As any operation: InvalidRequest, Forbidden, TooLarge, Overloaded, Internal, Unavailable,
                IdempotencyConflict.
        """
        return await self._send(operations.WORKSPACE_DELETE, locals())
