"""The operations of memory as methods, generated from the contracts by `make docs`."""

from collections.abc import Sequence
from datetime import datetime
from typing import Literal

from hivemem.methods import MISSING, ServiceMethods, reads, writes
from hivemem_contracts.json_values import Json
from hivemem_contracts.memory import operations
from hivemem_contracts.memory.models import ErasureReceipt, LeaseClaim, Memory, MemoryKey, Source
from hivemem_contracts.memory.replies import (
    AuditPage,
    AuditVerified,
    ExportPage,
    LeaseGranted,
    LeaseReleased,
    Memories,
    MemoriesImported,
    MemoriesWritten,
    MemoryCount,
    MemoryPage,
    MemoryWritten,
    NamespaceDiff,
    NamespaceForked,
    NamespacePage,
    NamespaceSnapshot,
    VersionPage,
)
from hivemem_contracts.memory.requests import DeleteMemory, ImportedMemory, PutMemory


class MemoryOperations(ServiceMethods):
    """Memories: versioned values in namespaces, with history, leases and an audit."""

    @writes(operations.PUT)
    async def put(
        self,
        *,
        namespace: str,
        key: str,
        value: Json,
        memory_type: Literal["semantic", "episodic", "procedural"] | None = MISSING,
        metadata: dict[str, Json] | None = MISSING,
        importance: float | None = MISSING,
        valid_from: datetime | None = MISSING,
        valid_to: datetime | None = MISSING,
        expires_at: datetime | None = MISSING,
        source: Source | None = MISSING,
        index: Sequence[str] | bool | None = MISSING,
        expect_version: int | None = MISSING,
        lease: LeaseClaim | None = MISSING,
    ) -> MemoryWritten:
        """Create a memory or replace its value.

        Each put replaces `value`; other fields that are left out stay as they were.

        Args:
            memory_type: `semantic` for a new memory.
            importance: 0 to 1; an explicit None removes it.
            valid_from: The start of its validity; an explicit None removes it.
            valid_to: The end of its validity; an explicit None removes it.
            expires_at: When to delete it; an explicit None removes it.
            source: Where it comes from; an explicit None removes it.
            index: The texts by which recall finds it; false: recall does not find it; an explicit None: by its own
                text.
            expect_version: Refuse with RevisionConflict unless this is the current version; 0: must not exist.

        Raises:
            RevisionConflict: `expect_revision` or `expect_version` does not match; the context has `expected` and
                `actual`.
            LeaseHeld: Another holder has the lease; the context has the `holder` and `expires_at`.
            TooLarge: A value exceeds its limit; the context has `field`, `limit` and `actual`.
            HiveError: As any operation: InvalidRequest, Forbidden, Overloaded, Internal, Unavailable,
                IdempotencyConflict.
        """
        return await self._send(operations.PUT, locals())

    @writes(operations.PATCH)
    async def patch(
        self,
        *,
        namespace: str,
        key: str,
        patch: Json,
        source: Source | None = None,
        expect_version: int | None = None,
        lease: LeaseClaim | None = None,
    ) -> MemoryWritten:
        """Apply a JSON merge patch to a memory's value.

        Args:
            patch: A JSON merge patch (RFC 7396): `None` removes a field.
            source: Where this change comes from; it stays if left out.
            expect_version: Refuse with RevisionConflict unless this is the current version; 0: must not exist.

        Raises:
            NotFound: No such session, memory, artifact, agent, window or version.
            RevisionConflict: `expect_revision` or `expect_version` does not match; the context has `expected` and
                `actual`.
            LeaseHeld: Another holder has the lease; the context has the `holder` and `expires_at`.
            TooLarge: A value exceeds its limit; the context has `field`, `limit` and `actual`.
            HiveError: As any operation: InvalidRequest, Forbidden, Overloaded, Internal, Unavailable,
                IdempotencyConflict.
        """
        return await self._send(operations.PATCH, locals())

    @writes(operations.PUT_BATCH)
    async def put_batch(
        self,
        *,
        puts: Sequence[PutMemory],
    ) -> MemoriesWritten:
        """Put many memories, each with its own outcome.

        Raises:
            HiveError: As any operation: InvalidRequest, Forbidden, TooLarge, Overloaded, Internal, Unavailable,
                IdempotencyConflict.
        """
        return await self._send(operations.PUT_BATCH, locals())

    @reads(operations.GET)
    async def get(
        self,
        *,
        namespace: str,
        key: str,
        version: int | None = None,
        as_of: datetime | None = None,
        include_deleted: bool = False,
    ) -> Memory:
        """Read a memory: now, at a version, or as of a moment.

        Args:
            version: As it was at this version.
            as_of: As it was at this moment.
            include_deleted: Return a deleted memory instead of NotFound.

        Raises:
            NotFound: No such session, memory, artifact, agent, window or version.
            HiveError: As any operation: InvalidRequest, Forbidden, TooLarge, Overloaded, Internal, Unavailable.
        """
        return await self._send(operations.GET, locals())

    @reads(operations.GET_MANY)
    async def get_many(
        self,
        *,
        keys: Sequence[MemoryKey],
    ) -> Memories:
        """Read many memories at once.

        Raises:
            HiveError: As any operation: InvalidRequest, Forbidden, TooLarge, Overloaded, Internal, Unavailable.
        """
        return await self._send(operations.GET_MANY, locals())

    @writes(operations.DELETE)
    async def delete(
        self,
        *,
        namespace: str,
        key: str,
        source: Source | None = None,
        expect_version: int | None = None,
        lease: LeaseClaim | None = None,
    ) -> MemoryWritten:
        """Delete a memory; its history stays.

        Args:
            source: Where this change comes from; it stays if left out.
            expect_version: Refuse with RevisionConflict unless this is the current version; 0: must not exist.

        Raises:
            NotFound: No such session, memory, artifact, agent, window or version.
            RevisionConflict: `expect_revision` or `expect_version` does not match; the context has `expected` and
                `actual`.
            LeaseHeld: Another holder has the lease; the context has the `holder` and `expires_at`.
            HiveError: As any operation: InvalidRequest, Forbidden, TooLarge, Overloaded, Internal, Unavailable,
                IdempotencyConflict.
        """
        return await self._send(operations.DELETE, locals())

    @writes(operations.DELETE_BATCH)
    async def delete_batch(
        self,
        *,
        deletes: Sequence[DeleteMemory],
    ) -> MemoriesWritten:
        """Delete many memories, each with its own outcome.

        Raises:
            HiveError: As any operation: InvalidRequest, Forbidden, TooLarge, Overloaded, Internal, Unavailable,
                IdempotencyConflict.
        """
        return await self._send(operations.DELETE_BATCH, locals())

    @writes(operations.RESTORE)
    async def restore(
        self,
        *,
        namespace: str,
        key: str,
        version: int | None = None,
        source: Source | None = None,
        expect_version: int | None = None,
        lease: LeaseClaim | None = None,
    ) -> MemoryWritten:
        """Make an older version of a memory the newest one again.

        Args:
            version: The version to restore; the one before its deletion if left out.
            source: Where this change comes from; it stays if left out.
            expect_version: Refuse with RevisionConflict unless this is the current version; 0: must not exist.

        Raises:
            NotFound: No such session, memory, artifact, agent, window or version.
            RevisionConflict: `expect_revision` or `expect_version` does not match; the context has `expected` and
                `actual`.
            LeaseHeld: Another holder has the lease; the context has the `holder` and `expires_at`.
            HiveError: As any operation: InvalidRequest, Forbidden, TooLarge, Overloaded, Internal, Unavailable,
                IdempotencyConflict.
        """
        return await self._send(operations.RESTORE, locals())

    @reads(operations.HISTORY)
    async def history(
        self,
        *,
        namespace: str,
        key: str,
        diff: bool = False,
        limit: int = 50,
        cursor: str | None = None,
    ) -> VersionPage:
        """Page through a memory's versions, newest first.

        Args:
            diff: Include the differences of each version to the previous one.
            limit: From 1 to 1000.
            cursor: The cursor of the previous page.

        Raises:
            NotFound: No such session, memory, artifact, agent, window or version.
            HiveError: As any operation: InvalidRequest, Forbidden, TooLarge, Overloaded, Internal, Unavailable.
        """
        return await self._send(operations.HISTORY, locals())

    @reads(operations.LIST)
    async def list(
        self,
        *,
        prefix: str,
        memory_type: Literal["semantic", "episodic", "procedural"] | None = None,
        created_by: str | None = None,
        updated_after: datetime | None = None,
        valid_at: datetime | None = None,
        where: dict[str, str | int | float | bool | None] | None = None,
        include_deleted: bool = False,
        sort: Literal["key", "-updated_at"] = "key",
        limit: int = 50,
        cursor: str | None = None,
    ) -> MemoryPage:
        """List memories below a prefix, filtered by type, creator or time.

        Args:
            updated_after: Only memories written later than this.
            valid_at: Only memories valid at this moment.
            where: Only memories whose values have these fields with these values; `a.b` is a field of an object.
            sort: By namespace and key, or newest write first.
            limit: From 1 to 1000.
            cursor: The cursor of the previous page.

        Raises:
            HiveError: As any operation: InvalidRequest, Forbidden, TooLarge, Overloaded, Internal, Unavailable.
        """
        return await self._send(operations.LIST, locals())

    @reads(operations.COUNT)
    async def count(
        self,
        *,
        prefix: str,
        memory_type: Literal["semantic", "episodic", "procedural"] | None = None,
        created_by: str | None = None,
        include_deleted: bool = False,
    ) -> MemoryCount:
        """Count memories below a prefix.

        Raises:
            HiveError: As any operation: InvalidRequest, Forbidden, TooLarge, Overloaded, Internal, Unavailable.
        """
        return await self._send(operations.COUNT, locals())

    @reads(operations.NAMESPACES)
    async def namespaces(
        self,
        *,
        prefix: str | None = None,
        suffix: str | None = None,
        depth: int | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> NamespacePage:
        """List the namespaces that hold memories.

        Args:
            prefix: All namespaces, if left out.
            suffix: Only namespaces that end with these segments.
            depth: Cut longer namespaces to this many segments, each result once. From 1 to 256.
            limit: From 1 to 1000.
            cursor: The cursor of the previous page.

        Raises:
            HiveError: As any operation: InvalidRequest, Forbidden, TooLarge, Overloaded, Internal, Unavailable.
        """
        return await self._send(operations.NAMESPACES, locals())

    @reads(operations.SNAPSHOT)
    async def snapshot(
        self,
        *,
        namespace: str,
        as_of: datetime | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> NamespaceSnapshot:
        """Read a namespace and all below it as of one moment.

        Args:
            as_of: Now, if left out; following pages use the same moment.
            limit: From 1 to 1000.
            cursor: The cursor of the previous page.

        Raises:
            HiveError: As any operation: InvalidRequest, Forbidden, TooLarge, Overloaded, Internal, Unavailable.
        """
        return await self._send(operations.SNAPSHOT, locals())

    @reads(operations.DIFF)
    async def diff(
        self,
        *,
        namespace: str,
        start: datetime,
        end: datetime,
        limit: int = 50,
        cursor: str | None = None,
    ) -> NamespaceDiff:
        """List the changes in and below a namespace between two moments.

        Args:
            limit: From 1 to 1000.
            cursor: The cursor of the previous page.

        Raises:
            HiveError: As any operation: InvalidRequest, Forbidden, TooLarge, Overloaded, Internal, Unavailable.
        """
        return await self._send(operations.DIFF, locals())

    @writes(operations.FORK)
    async def fork(
        self,
        *,
        namespace: str,
        into: str,
        as_of: datetime | None = None,
    ) -> NamespaceForked:
        """Copy a namespace and all below it, as of a moment, into another.

        Args:
            into: The target, which must be empty, including all below it.
            as_of: As it was at this moment; now, if left out.

        Raises:
            AlreadyExists: Something with this id exists already.
            HiveError: As any operation: InvalidRequest, Forbidden, TooLarge, Overloaded, Internal, Unavailable,
                IdempotencyConflict.
        """
        return await self._send(operations.FORK, locals())

    @writes(operations.LEASE)
    async def lease(
        self,
        *,
        namespace: str,
        key: str | None = None,
        ttl_ms: int,
        wait_ms: int = 0,
    ) -> LeaseGranted:
        """Acquire the lease on a namespace or a key, waiting in its queue if necessary.

        Args:
            key: If left out: a lease on the whole namespace.
            ttl_ms: From 100 to 3600000.
            wait_ms: How long to wait in the queue if it is held. From 0 to 300000.

        Raises:
            LeaseHeld: Another holder has the lease; the context has the `holder` and `expires_at`.
            HiveError: As any operation: InvalidRequest, Forbidden, TooLarge, Overloaded, Internal, Unavailable,
                IdempotencyConflict.
        """
        return await self._send(operations.LEASE, locals())

    @writes(operations.RENEW)
    async def renew(
        self,
        *,
        namespace: str,
        key: str | None = None,
        token: int,
        ttl_ms: int | None = None,
    ) -> LeaseGranted:
        """Extend a lease that is still held.

        Args:
            ttl_ms: The time from now; the time it was acquired for, if left out. From 100 to 3600000.

        Raises:
            LeaseHeld: Another holder has the lease; the context has the `holder` and `expires_at`.
            RevisionConflict: `expect_revision` or `expect_version` does not match; the context has `expected` and
                `actual`.
            HiveError: As any operation: InvalidRequest, Forbidden, TooLarge, Overloaded, Internal, Unavailable,
                IdempotencyConflict.
        """
        return await self._send(operations.RENEW, locals())

    @writes(operations.RELEASE)
    async def release(
        self,
        *,
        namespace: str,
        key: str | None = None,
        token: int,
    ) -> LeaseReleased:
        """Release a lease; the first request in its queue gets it.

        Raises:
            LeaseHeld: Another holder has the lease; the context has the `holder` and `expires_at`.
            HiveError: As any operation: InvalidRequest, Forbidden, TooLarge, Overloaded, Internal, Unavailable,
                IdempotencyConflict.
        """
        return await self._send(operations.RELEASE, locals())

    @reads(operations.AUDIT)
    async def audit(
        self,
        *,
        namespace: str | None = None,
        key: str | None = None,
        actor: str | None = None,
        operation: str | None = None,
        task_id: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> AuditPage:
        """List who did what, when and through which request, newest first.

        Args:
            namespace: This one and all below it.
            key: One key of exactly this namespace.
            task_id: Only versions whose source names this task.
            until: Before this moment.
            limit: From 1 to 1000.
            cursor: The cursor of the previous page.

        Raises:
            HiveError: As any operation: InvalidRequest, Forbidden, TooLarge, Overloaded, Internal, Unavailable.
        """
        return await self._send(operations.AUDIT, locals())

    @reads(operations.AUDIT_VERIFY)
    async def audit_verify(
        self,
        *,
        cursor: str | None = None,
    ) -> AuditVerified:
        """Verify the tenant's audit chain, and the memories against it.

        Args:
            cursor: Continue a long verification.

        Raises:
            HiveError: As any operation: InvalidRequest, Forbidden, TooLarge, Overloaded, Internal, Unavailable.
        """
        return await self._send(operations.AUDIT_VERIFY, locals())

    @writes(operations.ERASE)
    async def erase(
        self,
        *,
        namespace: str,
        key: str | None = None,
    ) -> ErasureReceipt:
        """Remove a memory, or a namespace and all below it, with every version, for good.

        Args:
            key: If left out: everything in and below the namespace.

        Raises:
            NotFound: No such session, memory, artifact, agent, window or version.
            HiveError: As any operation: InvalidRequest, Forbidden, TooLarge, Overloaded, Internal, Unavailable,
                IdempotencyConflict.
        """
        return await self._send(operations.ERASE, locals())

    @reads(operations.ERASURE)
    async def erasure(
        self,
        *,
        receipt: str,
    ) -> ErasureReceipt:
        """Read an erasure's receipt.

        Raises:
            NotFound: No such session, memory, artifact, agent, window or version.
            HiveError: As any operation: InvalidRequest, Forbidden, TooLarge, Overloaded, Internal, Unavailable.
        """
        return await self._send(operations.ERASURE, locals())

    @writes(operations.ERASE_CONFIRM)
    async def erase_confirm(
        self,
        *,
        receipt: str,
        worker: str,
        removed: int,
    ) -> ErasureReceipt:
        """Confirm on a receipt that a worker has removed its copies.

        Args:
            worker: The worker whose copies are gone.

        Raises:
            NotFound: No such session, memory, artifact, agent, window or version.
            HiveError: As any operation: InvalidRequest, Forbidden, TooLarge, Overloaded, Internal, Unavailable,
                IdempotencyConflict.
        """
        return await self._send(operations.ERASE_CONFIRM, locals())

    @reads(operations.EXPORT)
    async def export(
        self,
        *,
        prefix: str,
        as_of: datetime | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> ExportPage:
        """Read the memories below a prefix, as of one moment, as lines for `import`.

        Args:
            as_of: Now, if left out; following pages use the same moment.
            limit: From 1 to 1000.
            cursor: The cursor of the previous page.

        Raises:
            HiveError: As any operation: InvalidRequest, Forbidden, TooLarge, Overloaded, Internal, Unavailable.
        """
        return await self._send(operations.EXPORT, locals())

    @writes(operations.IMPORT)
    async def import_(
        self,
        *,
        items: Sequence[ImportedMemory],
        existing: Literal["update", "keep"] = "update",
    ) -> MemoriesImported:
        """Import lines of an export; memories with the same content stay as they are.

        Args:
            existing: How to treat an existing memory with other content.

        Raises:
            HiveError: As any operation: InvalidRequest, Forbidden, TooLarge, Overloaded, Internal, Unavailable,
                IdempotencyConflict.
        """
        return await self._send(operations.IMPORT, locals())
