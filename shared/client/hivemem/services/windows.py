"""The operations of windows as methods, generated from the contracts by `make docs`."""

from collections.abc import Sequence
from typing import Literal

from hivemem.methods import ServiceMethods, reads, writes
from hivemem_contracts.json_values import Json
from hivemem_contracts.memory.models import LeaseClaim
from hivemem_contracts.windows import operations
from hivemem_contracts.windows.models import ResourceVersion, WindowMessage, WindowResource
from hivemem_contracts.windows.replies import (
    MessageAppended,
    MessageDeleted,
    MessagesAppended,
    OriginalPage,
    ResourceDeleted,
    ResourcePage,
    ResourceWritten,
    WindowCleared,
    WindowFlushed,
    WindowHealth,
    WindowPage,
    WindowRead,
    WindowStats,
)


class WindowsOperations(ServiceMethods):
    """Windows: conversations that agents share, within a budget of tokens."""

    @writes(operations.RESOURCE_PUT)
    async def resource_put(
        self,
        *,
        resource: WindowResource,
        expect_version: int | None = None,
    ) -> ResourceWritten:
        """Declare a window resource, or change its declaration.

        Args:
            expect_version: Refuse with RevisionConflict unless this is the current version; 0: must not exist.

        Raises:
            RevisionConflict: `expect_revision` or `expect_version` does not match; the context has `expected` and
                `actual`.
            HiveError: As any operation: InvalidRequest, Forbidden, TooLarge, Overloaded, Internal, Unavailable,
                IdempotencyConflict.
        """
        return await self._send(operations.RESOURCE_PUT, locals())

    @reads(operations.RESOURCE_GET)
    async def resource_get(
        self,
        *,
        id: str,
        version: int | None = None,
    ) -> ResourceVersion:
        """Read a resource.

        Args:
            version: The newest one if left out.

        Raises:
            NotFound: No such session, memory, artifact, agent, window or version.
            HiveError: As any operation: InvalidRequest, Forbidden, TooLarge, Overloaded, Internal, Unavailable.
        """
        return await self._send(operations.RESOURCE_GET, locals())

    @reads(operations.RESOURCE_LIST)
    async def resource_list(
        self,
        *,
        limit: int = 50,
        cursor: str | None = None,
    ) -> ResourcePage:
        """List resources by id.

        Args:
            limit: From 1 to 1000.
            cursor: The cursor of the previous page.

        Raises:
            HiveError: As any operation: InvalidRequest, Forbidden, TooLarge, Overloaded, Internal, Unavailable.
        """
        return await self._send(operations.RESOURCE_LIST, locals())

    @writes(operations.RESOURCE_DELETE)
    async def resource_delete(
        self,
        *,
        id: str,
    ) -> ResourceDeleted:
        """Delete a resource: its windows take no more messages.

        Raises:
            NotFound: No such session, memory, artifact, agent, window or version.
            HiveError: As any operation: InvalidRequest, Forbidden, TooLarge, Overloaded, Internal, Unavailable,
                IdempotencyConflict.
        """
        return await self._send(operations.RESOURCE_DELETE, locals())

    @writes(operations.APPEND)
    async def append(
        self,
        *,
        resource: str,
        key: str | None = None,
        context: dict[str, Json] | None = None,
        mode: Literal["read-write", "read-only"] = "read-write",
        lease: LeaseClaim | None = None,
        message: WindowMessage,
        message_id: str | None = None,
    ) -> MessageAppended:
        """Append a message to a window, which stays within its limits.

        Args:
            context: The variables of the key template. Not together with `key`.
            mode: `read-only`: a write is refused with `Forbidden`.
            lease: The lease under which it is written. A claim with an earlier token of this lease is refused from then
                on.
            message_id: The same id again appends nothing and gets the first answer.

        Raises:
            NotFound: No such session, memory, artifact, agent, window or version.
            IllegalTransition: The status or machine transition is not allowed; the context has the `allowed` ones.
            LeaseHeld: Another holder has the lease; the context has the `holder` and `expires_at`.
            HiveError: As any operation: InvalidRequest, Forbidden, TooLarge, Overloaded, Internal, Unavailable,
                IdempotencyConflict.
        """
        return await self._send(operations.APPEND, locals())

    @writes(operations.APPEND_MANY)
    async def append_many(
        self,
        *,
        resource: str,
        key: str | None = None,
        context: dict[str, Json] | None = None,
        mode: Literal["read-write", "read-only"] = "read-write",
        lease: LeaseClaim | None = None,
        messages: Sequence[WindowMessage],
    ) -> MessagesAppended:
        """Append several messages in one step.

        Args:
            context: The variables of the key template. Not together with `key`.
            mode: `read-only`: a write is refused with `Forbidden`.
            lease: The lease under which it is written. A claim with an earlier token of this lease is refused from then
                on.

        Raises:
            NotFound: No such session, memory, artifact, agent, window or version.
            IllegalTransition: The status or machine transition is not allowed; the context has the `allowed` ones.
            LeaseHeld: Another holder has the lease; the context has the `holder` and `expires_at`.
            HiveError: As any operation: InvalidRequest, Forbidden, TooLarge, Overloaded, Internal, Unavailable,
                IdempotencyConflict.
        """
        return await self._send(operations.APPEND_MANY, locals())

    @reads(operations.READ)
    async def read(
        self,
        *,
        resource: str,
        key: str | None = None,
        context: dict[str, Json] | None = None,
        mode: Literal["read-write", "read-only"] = "read-write",
        limit: int | None = None,
        max_tokens: int | None = None,
        shares: Sequence[Literal["system", "long_term", "short_term"]] | None = None,
    ) -> WindowRead:
        """Read the messages of a window for a model.

        Args:
            context: The variables of the key template. Not together with `key`.
            mode: `read-only`: a write is refused with `Forbidden`.
            limit: Only the newest messages; a tool call and its results stay together. From 1 to 20000.
            max_tokens: Messages of the system first, then the newest ones, up to that many tokens.

        Raises:
            NotFound: No such session, memory, artifact, agent, window or version.
            HiveError: As any operation: InvalidRequest, Forbidden, TooLarge, Overloaded, Internal, Unavailable.
        """
        return await self._send(operations.READ, locals())

    @writes(operations.WRITE)
    async def write(
        self,
        *,
        resource: str,
        key: str | None = None,
        context: dict[str, Json] | None = None,
        mode: Literal["read-write", "read-only"] = "read-write",
        lease: LeaseClaim | None = None,
        messages: Sequence[WindowMessage],
        expect_version: int | None = None,
    ) -> MessagesAppended:
        """Replace the messages of a window; the earlier ones stay readable as originals.

        Args:
            context: The variables of the key template. Not together with `key`.
            mode: `read-only`: a write is refused with `Forbidden`.
            lease: The lease under which it is written. A claim with an earlier token of this lease is refused from then
                on.
            expect_version: Refuse with RevisionConflict unless this is the current version; 0: must not exist.

        Raises:
            NotFound: No such session, memory, artifact, agent, window or version.
            IllegalTransition: The status or machine transition is not allowed; the context has the `allowed` ones.
            LeaseHeld: Another holder has the lease; the context has the `holder` and `expires_at`.
            RevisionConflict: `expect_revision` or `expect_version` does not match; the context has `expected` and
                `actual`.
            HiveError: As any operation: InvalidRequest, Forbidden, TooLarge, Overloaded, Internal, Unavailable,
                IdempotencyConflict.
        """
        return await self._send(operations.WRITE, locals())

    @writes(operations.DELETE)
    async def delete(
        self,
        *,
        resource: str,
        key: str | None = None,
        context: dict[str, Json] | None = None,
        mode: Literal["read-write", "read-only"] = "read-write",
        lease: LeaseClaim | None = None,
        message_id: str,
    ) -> MessageDeleted:
        """Delete a message for good, whether it is in the window or has left it.

        Args:
            context: The variables of the key template. Not together with `key`.
            mode: `read-only`: a write is refused with `Forbidden`.
            lease: The lease under which it is written. A claim with an earlier token of this lease is refused from then
                on.

        Raises:
            NotFound: No such session, memory, artifact, agent, window or version.
            IllegalTransition: The status or machine transition is not allowed; the context has the `allowed` ones.
            LeaseHeld: Another holder has the lease; the context has the `holder` and `expires_at`.
            HiveError: As any operation: InvalidRequest, Forbidden, TooLarge, Overloaded, Internal, Unavailable,
                IdempotencyConflict.
        """
        return await self._send(operations.DELETE, locals())

    @writes(operations.CLEAR)
    async def clear(
        self,
        *,
        resource: str,
        key: str | None = None,
        context: dict[str, Json] | None = None,
        mode: Literal["read-write", "read-only"] = "read-write",
        lease: LeaseClaim | None = None,
    ) -> WindowCleared:
        """Delete all messages of a window, its summary and its originals.

        Args:
            context: The variables of the key template. Not together with `key`.
            mode: `read-only`: a write is refused with `Forbidden`.
            lease: The lease under which it is written. A claim with an earlier token of this lease is refused from then
                on.

        Raises:
            NotFound: No such session, memory, artifact, agent, window or version.
            IllegalTransition: The status or machine transition is not allowed; the context has the `allowed` ones.
            LeaseHeld: Another holder has the lease; the context has the `holder` and `expires_at`.
            HiveError: As any operation: InvalidRequest, Forbidden, TooLarge, Overloaded, Internal, Unavailable,
                IdempotencyConflict.
        """
        return await self._send(operations.CLEAR, locals())

    @reads(operations.ORIGINALS)
    async def originals(
        self,
        *,
        resource: str,
        key: str | None = None,
        context: dict[str, Json] | None = None,
        mode: Literal["read-write", "read-only"] = "read-write",
        limit: int = 50,
        cursor: str | None = None,
    ) -> OriginalPage:
        """Read the messages that were flushed, evicted or replaced, in order.

        Args:
            context: The variables of the key template. Not together with `key`.
            mode: `read-only`: a write is refused with `Forbidden`.
            limit: From 1 to 1000.
            cursor: The cursor of the previous page.

        Raises:
            NotFound: No such session, memory, artifact, agent, window or version.
            HiveError: As any operation: InvalidRequest, Forbidden, TooLarge, Overloaded, Internal, Unavailable.
        """
        return await self._send(operations.ORIGINALS, locals())

    @writes(operations.FLUSH)
    async def flush(
        self,
        *,
        resource: str,
        key: str | None = None,
        context: dict[str, Json] | None = None,
        mode: Literal["read-write", "read-only"] = "read-write",
        lease: LeaseClaim | None = None,
        strategy: Literal[
            "fifo",
            "lru",
            "lfu",
            "priority",
            "token_threshold",
            "message_count",
            "time",
            "hybrid_summary",
            "model_summary",
        ]
        | None = None,
    ) -> WindowFlushed:
        """Flush a window now.

        Args:
            context: The variables of the key template. Not together with `key`.
            mode: `read-only`: a write is refused with `Forbidden`.
            lease: The lease under which it is written. A claim with an earlier token of this lease is refused from then
                on.
            strategy: That of the resource, else `fifo`.

        Raises:
            NotFound: No such session, memory, artifact, agent, window or version.
            IllegalTransition: The status or machine transition is not allowed; the context has the `allowed` ones.
            LeaseHeld: Another holder has the lease; the context has the `holder` and `expires_at`.
            HiveError: As any operation: InvalidRequest, Forbidden, TooLarge, Overloaded, Internal, Unavailable,
                IdempotencyConflict.
        """
        return await self._send(operations.FLUSH, locals())

    @reads(operations.HEALTH)
    async def health(
        self,
        *,
        resource: str,
        key: str | None = None,
        context: dict[str, Json] | None = None,
        mode: Literal["read-write", "read-only"] = "read-write",
    ) -> WindowHealth:
        """Check a window against its limits.

        Args:
            context: The variables of the key template. Not together with `key`.
            mode: `read-only`: a write is refused with `Forbidden`.

        Raises:
            NotFound: No such session, memory, artifact, agent, window or version.
            HiveError: As any operation: InvalidRequest, Forbidden, TooLarge, Overloaded, Internal, Unavailable.
        """
        return await self._send(operations.HEALTH, locals())

    @reads(operations.STATS)
    async def stats(
        self,
        *,
        resource: str,
        key: str | None = None,
        context: dict[str, Json] | None = None,
        mode: Literal["read-write", "read-only"] = "read-write",
    ) -> WindowStats:
        """Read the counters of a window.

        Args:
            context: The variables of the key template. Not together with `key`.
            mode: `read-only`: a write is refused with `Forbidden`.

        Raises:
            NotFound: No such session, memory, artifact, agent, window or version.
            HiveError: As any operation: InvalidRequest, Forbidden, TooLarge, Overloaded, Internal, Unavailable.
        """
        return await self._send(operations.STATS, locals())

    @reads(operations.LIST)
    async def windows(
        self,
        *,
        resource: str | None = None,
        prefix: str | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> WindowPage:
        """List windows by key.

        Args:
            prefix: The first segments of a key, which `:` separates.
            limit: From 1 to 1000.
            cursor: The cursor of the previous page.

        Raises:
            HiveError: As any operation: InvalidRequest, Forbidden, TooLarge, Overloaded, Internal, Unavailable.
        """
        return await self._send(operations.LIST, locals())
