"""The operations of vectors as methods, generated from the contracts by `make docs`."""

from collections.abc import Sequence
from typing import Literal

from hivemem.methods import ServiceMethods, reads, writes
from hivemem_contracts.json_values import Json
from hivemem_contracts.vectors import operations
from hivemem_contracts.vectors.models import RecallFilter, Weights
from hivemem_contracts.vectors.replies import (
    IndexOverview,
    RecallAnswer,
    StatusPage,
    SweepPage,
    VectorDeleted,
    VectorMatches,
    VectorStored,
)


class VectorsOperations(ServiceMethods):
    """Vectors: memories found by meaning, and an index of one's own."""

    @reads(operations.RECALL)
    async def recall(
        self,
        *,
        query: str,
        namespace_prefix: str | None = None,
        memory_type: Literal["semantic", "episodic", "procedural"] | None = None,
        kinds: Sequence[Literal["memory", "event"]] | None = None,
        user_id: str | None = None,
        app_name: str | None = None,
        project_id: str | None = None,
        session_ids: Sequence[str] | None = None,
        context: int = 0,
        filter: RecallFilter | None = None,
        limit: int = 10,
        cursor: str | None = None,
        weights: Weights | None = None,
        rerank: bool = False,
        max_tokens: int | None = None,
        min_version: int | None = None,
        wait_ms: int | None = None,
        explain: bool = False,
    ) -> RecallAnswer:
        """Find memories by meaning and by words.

        Args:
            kinds: Only items of these kinds.
            user_id: Only events of this user's sessions.
            app_name: Only events of this app's sessions.
            project_id: Only events of this project's sessions.
            session_ids: Only events of these sessions.
            context: Add at most this many events of its session before and after each event. From 0 to 10.
            limit: From 1 to 100.
            cursor: Continue after the previous page of the same question; not with `rerank`.
            rerank: Let the hive's reranker order the best items.
            max_tokens: Limit the values, and the texts of `context`, to about this many tokens; an item over the limit
                is skipped. From 1 to 1000000.
            min_version: Wait until a memory below the prefix is found at this version or a later one; for 5000 ms, if
                `wait_ms` is left out.
            wait_ms: Wait at most this long until all earlier acknowledged writes are indexed. From 0 to 30000.
            explain: Return the words of each item that matched.

        Raises:
            HiveError: As any operation: InvalidRequest, Forbidden, TooLarge, Overloaded, Internal, Unavailable.
        """
        return await self._send(operations.RECALL, locals())

    @writes(operations.STORE)
    async def store(
        self,
        *,
        id: str,
        embedding: Sequence[float],
        metadata: dict[str, Json] | None = None,
        collection: str = "default",
    ) -> VectorStored:
        """Store a vector under an id, replacing the previous one.

        Args:
            collection: Created by its first vector, which sets its dimension.

        Raises:
            HiveError: As any operation: InvalidRequest, Forbidden, TooLarge, Overloaded, Internal, Unavailable,
                IdempotencyConflict.
        """
        return await self._send(operations.STORE, locals())

    @reads(operations.QUERY)
    async def query(
        self,
        *,
        embedding: Sequence[float],
        top_k: int = 10,
        filter: dict[str, str | int | bool] | None = None,
        collection: str = "default",
    ) -> VectorMatches:
        """Find the nearest vectors of a collection.

        Args:
            top_k: From 1 to 100.
            filter: Metadata fields with their required values.

        Raises:
            NotFound: No such session, memory, artifact, agent, window or version.
            HiveError: As any operation: InvalidRequest, Forbidden, TooLarge, Overloaded, Internal, Unavailable.
        """
        return await self._send(operations.QUERY, locals())

    @writes(operations.DELETE)
    async def delete(
        self,
        *,
        id: str,
        collection: str = "default",
    ) -> VectorDeleted:
        """Remove a vector.

        Raises:
            HiveError: As any operation: InvalidRequest, Forbidden, TooLarge, Overloaded, Internal, Unavailable,
                IdempotencyConflict.
        """
        return await self._send(operations.DELETE, locals())

    @reads(operations.STATUS)
    async def status(
        self,
        *,
        namespace: str | None = None,
        key: str | None = None,
        state: Literal["pending", "synced", "failed", "stale"] | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> StatusPage:
        """List the index status of each memory.

        Args:
            namespace: Exactly this namespace; all if left out.
            key: One memory of the namespace.
            limit: From 1 to 1000.
            cursor: The cursor of the previous page.

        Raises:
            HiveError: As any operation: InvalidRequest, Forbidden, TooLarge, Overloaded, Internal, Unavailable.
        """
        return await self._send(operations.STATUS, locals())

    @reads(operations.OVERVIEW)
    async def overview(self) -> IndexOverview:
        """Summarise the index status, and the health of the embedder and the vector store.

        Raises:
            HiveError: As any operation: InvalidRequest, Forbidden, TooLarge, Overloaded, Internal, Unavailable.
        """
        return await self._send(operations.OVERVIEW, locals())

    @writes(operations.SWEEP)
    async def sweep(
        self,
        *,
        dry_run: bool = False,
        cursor: str | None = None,
    ) -> SweepPage:
        """Compare memories and index, and repair the differences.

        Args:
            dry_run: Only count the differences.
            cursor: Continue a long sweep.

        Raises:
            HiveError: As any operation: InvalidRequest, Forbidden, TooLarge, Overloaded, Internal, Unavailable,
                IdempotencyConflict.
        """
        return await self._send(operations.SWEEP, locals())
