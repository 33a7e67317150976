"""The operations of artifacts as methods, generated from the contracts by `make docs`."""

from hivemem.methods import ServiceMethods, reads, writes
from hivemem_contracts.artifacts import operations
from hivemem_contracts.artifacts.models import Artifact, Upload
from hivemem_contracts.artifacts.replies import (
    ArtifactContent,
    ArtifactDeleted,
    ArtifactPage,
    GarbageCollected,
    Manifest,
    UploadAborted,
)
from hivemem_contracts.json_values import Json


class ArtifactsOperations(ServiceMethods):
    """Artifacts: files of a session, versioned, of any size."""

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
        session_id: str,
        name: str,
        size: int | None = None,
        sha256: str | None = None,
        content_type: str | None = None,
        metadata: dict[str, Json] | None = None,
        presigned: bool = False,
    ) -> Upload:
        """Begin to upload a file of any size.

        Args:
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
