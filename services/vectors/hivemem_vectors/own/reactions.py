"""The way of users' vectors into the index and out of it, in batches.

A vector that does not get there at once is marked in the ledger, and a timer retries it.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple

import structlog

from hivemem_contracts.errors import HiveError, Unavailable
from hivemem_runtime.background import Background
from hivemem_runtime.batches import grouped
from hivemem_runtime.bounded import BoundedDict
from hivemem_runtime.bus.connection import Client
from hivemem_runtime.ledger.current import current_values
from hivemem_runtime.ledger.port import Head, Ledger, system_write
from hivemem_vectors.own.decisions import physical, point_of, settle, up_to
from hivemem_vectors.own.entities import COLLECTION, PROGRESS, VECTOR, StoredVector, collection_and_id, unpacked_vector
from hivemem_vectors.stores.guarded import GuardedStore
from hivemem_vectors.stores.ports import Point

log = structlog.get_logger("hivemem.vectors")

AT_ONCE: Final = 100
"""Vectors in one call of the store."""
QUEUED: Final = 2_000
"""The most vectors that wait in the queue. A timer brings further ones."""
PATIENCE_SECONDS: Final = 1.0
"""How long a command waits for the index."""
KNOWN_COLLECTIONS: Final = 10_000

Key = tuple[str, str]
"""A tenant and the id of a vector."""


class _Part(NamedTuple):
    """Vectors of one tenant and dimension, by the version in the ledger."""

    points: list[Point]
    brought: dict[str, int]
    removed: dict[str, int]


class VectorSync(Background):
    """Keeps users' vectors in the index in step with the ledger."""

    def __init__(self, ledger: Ledger, store: GuardedStore) -> None:
        self._ledger = ledger
        self._store = store
        self._dimensions = BoundedDict[Key, int](KNOWN_COLLECTIONS)
        self._queue: dict[Key, asyncio.Future[None]] = {}
        self._began: float | None = None
        """The start of the running batch."""
        self._task: asyncio.Task[None] | None = None
        self._stopping = False

    async def start(self, client: Client) -> None:
        """Do nothing: the first command starts the work."""
        self._stopping = False

    async def stop(self) -> None:
        if self._task is not None:
            # Before Python 3.12, a cancellation is lost on who gets an answer at the same moment.
            self._stopping = True
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self._release(self._queue)

    @property
    def is_away(self) -> bool:
        """Return whether the store's breaker is open."""
        return self._store.breaker.state == "open"

    async def soon(self, tenant: str, vector: str) -> None:
        """Return once the index has the vector's newest version, or after a short time."""
        future = self._queue.get((tenant, vector))
        if future is None:
            if len(self._queue) >= QUEUED:
                return
            future = self._queue[tenant, vector] = asyncio.get_running_loop().create_future()
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run(), name="hivemem-settling")
        if not self._is_stuck():
            await asyncio.wait({future}, timeout=PATIENCE_SECONDS)

    async def settle(self, tenant: str, vectors: Sequence[str]) -> None:
        """Bring vectors to the index now, whatever the ledger says of it. Raises the last error."""
        if not vectors:
            return
        parts, failure = await self._bring(tenant, vectors)
        await self._finish(tenant, parts)
        if failure is not None:
            raise failure

    def _is_stuck(self) -> bool:
        return self._began is not None and asyncio.get_running_loop().time() - self._began > PATIENCE_SECONDS

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while self._queue and not self._stopping:
            batch = {key: self._queue.pop(key) for key in list(self._queue)[:AT_ONCE]}
            self._began = loop.time()
            try:
                by_tenant = grouped(batch).items()
                await asyncio.gather(*(self._settle_queued(tenant, vectors, batch) for tenant, vectors in by_tenant))
            finally:
                self._began = None
                self._release(batch)

    async def _settle_queued(
        self, tenant: str, vectors: Sequence[str], batch: dict[Key, "asyncio.Future[None]"]
    ) -> None:
        try:
            parts, failure = await self._bring(tenant, vectors)
            self._release({(tenant, vector): batch.pop((tenant, vector)) for vector in vectors})
            await self._finish(tenant, parts)
        except HiveError as error:
            failure = error
        except Exception:
            log.exception("vectors could not be brought to the index", tenant=tenant, vectors=len(vectors))
            return
        if isinstance(failure, Unavailable):
            log.debug("vectors are brought to the index later", tenant=tenant, vectors=len(vectors), error=str(failure))
        elif failure is not None:
            log.warning("the index refuses vectors", tenant=tenant, vectors=len(vectors), error=str(failure))

    def _release(self, waiting: Mapping[Key, "asyncio.Future[None]"]) -> None:
        for future in waiting.values():
            if not future.done():
                future.set_result(None)

    async def _bring(self, tenant: str, vectors: Sequence[str]) -> tuple[dict[int, _Part], HiveError | None]:
        """Upsert living vectors and remove deleted ones, dimension by dimension. Returns the parts that the store took,
        and the last error."""
        heads = await self._ledger.heads(VECTOR, tenant, vectors)
        brought, failure = dict[int, _Part](), None
        for dimension, part in (await self._parts(tenant, heads)).items():
            name = physical(dimension)
            try:
                await self._store.upsert(name, part.points)
                for vector, version in part.removed.items():
                    await self._store.delete_where(name, up_to(tenant, vector, version))
            except HiveError as error:
                failure = error
            else:
                brought[dimension] = part
        return brought, failure

    async def _finish(self, tenant: str, parts: Mapping[int, _Part]) -> None:
        """Note what the index has, and remove useless points."""
        for dimension, part in parts.items():
            vectors = [*part.brought, *part.removed]
            decide = partial(settle, part.brought, part.removed)
            reads = [(PROGRESS, vector) for vector in vectors]
            outcome = await self._ledger.commit(system_write(tenant, PROGRESS, vectors[0], decide, reads))
            await self._store.delete(physical(dimension), tenant, outcome.answer)

    async def _parts(self, tenant: str, heads: Mapping[str, Head[StoredVector]]) -> dict[int, _Part]:
        dimensions = await self.dimensions_of(tenant, {collection_and_id(vector)[0] for vector in heads})
        parts: dict[int, _Part] = {}
        for vector, head in heads.items():
            dimension = dimensions.get(collection_and_id(vector)[0])
            if head.value is None or dimension is None:
                continue
            part = parts.setdefault(dimension, _Part([], {}, {}))
            if head.value.embedding is None:
                part.removed[vector] = head.version
                continue
            embedding = unpacked_vector(head.value.embedding)
            part.points.append(point_of(tenant, vector, head.version, embedding, head.value.metadata))
            part.brought[vector] = head.version
        return parts

    async def dimensions_of(self, tenant: str, collections: Iterable[str]) -> dict[str, int]:
        """Return the dimensions of collections, which never change."""
        unknown = [name for name in collections if (tenant, name) not in self._dimensions]
        for name, collection in (await current_values(self._ledger, COLLECTION, tenant, unknown)).items():
            self._dimensions[tenant, name] = collection.dimension
        return {name: self._dimensions[tenant, name] for name in collections if (tenant, name) in self._dimensions}
