"""The nearest of users' own vectors: by the index, and by comparing with those that it does not have yet.

What was acknowledged is found: whatever is not in the index when a query begins is marked in the ledger by then.
"""

import asyncio
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

from hivemem_contracts.errors import HiveError, NotFound, Unavailable
from hivemem_contracts.vectors import operations, requests
from hivemem_contracts.vectors.models import VectorMatch
from hivemem_contracts.vectors.replies import VectorMatches
from hivemem_runtime.circuit_breaker import Breaker
from hivemem_runtime.ledger.port import Head, Ledger
from hivemem_runtime.service import Call, Service
from hivemem_vectors.own.decisions import (
    check_dimension,
    dimension_of,
    direction,
    exact_cosines,
    given_vector,
    holds,
    parsed,
    physical,
    physical_schema,
    wanted_words,
)
from hivemem_vectors.own.entities import (
    COLLECTION,
    PROGRESS,
    VECTOR,
    StoredVector,
    collection_and_id,
    unpacked_vector,
    within_collection,
)
from hivemem_vectors.stores.ports import POINTS_PER_CALL, Equal, Filter, Hit, Vector, VectorStore
from hivemem_vectors.upkeep.endpoints.collections import Collections

WAITING: Final = 200
"""The newest of those that the index does not have yet are compared with one by one."""
COMPARED: Final = 2_000
"""A collection of so many is compared with as a whole while the index cannot be asked."""
NUMBERS_READ: Final = 200_000
"""Numbers of vectors in one read from the ledger."""
SEARCH_SECONDS: Final = 2.0
"""How long the index has for an answer."""
SLACK: Final = 16
"""More than was asked for: some of the hits may be deleted."""
WIDER: Final = 4
RETRY_AFTER_MS: Final = 1_000
FILLED_AFTER_MS: Final = 5_000


@dataclass(slots=True)
class _Question:
    tenant: str
    collection: str
    top_k: int
    direction: Vector
    words: Sequence[str]
    found: dict[str, VectorMatch] = field(default_factory=dict[str, VectorMatch])
    """By vector."""

    def compare(self, heads: Iterable[Head[StoredVector]]) -> None:
        """Score them by their embeddings; those that are deleted, or have not the words, are none of it."""
        rows: list[Vector] = []
        compared: list[tuple[str, dict[str, Any]]] = []
        for head in heads:
            stored = head.value
            if stored is not None and stored.embedding is not None and holds(self.words, stored.metadata):
                rows.append(unpacked_vector(stored.embedding))
                compared.append((head.id, stored.metadata))
        if not rows:
            return
        scores = exact_cosines(self.direction, rows)
        for (vector, metadata), score in zip(compared, scores, strict=True):
            self.add(vector, score, metadata)

    def add(self, vector: str, score: float, metadata: dict[str, Any]) -> None:
        _, id = collection_and_id(vector)
        self.found[vector] = VectorMatch.model_construct(id=id, score=min(1.0, max(-1.0, score)), metadata=metadata)

    def best(self) -> list[VectorMatch]:
        return sorted(self.found.values(), key=lambda match: (-match.score, match.id))[: self.top_k]


class Querying:
    def __init__(self, ledger: Ledger, store: VectorStore, breaker: Breaker, collections: Collections) -> None:
        self._ledger = ledger
        self._store = store
        self._breaker = breaker
        self._collections = collections

    def bind(self, service: Service) -> None:
        service.handler(operations.QUERY, self.query)

    async def query(self, call: Call, body: requests.QueryVectors) -> VectorMatches:
        tenant, collection = call.sender.tenant, body.collection
        asked = given_vector(body.embedding)
        dimension = dimension_of(collection, await self._ledger.head(COLLECTION, tenant, collection))
        check_dimension(collection, dimension, asked)
        words = wanted_words(body.filter)
        if words is None:
            return VectorMatches(items=[])
        question = _Question(tenant, collection, body.top_k, direction(asked), words)
        # In this order: what is brought to the index in between is found there as well.
        question.compare(await self._waiting(question))
        try:
            await self._search(question, dimension)
        except NotFound as error:
            await self._make_again(dimension)
            await self._compare_all(question, dimension, error)
        except Unavailable as error:
            await self._compare_all(question, dimension, error)
        return VectorMatches.model_construct(items=question.best())

    async def _waiting(self, question: _Question) -> list[Head[StoredVector]]:
        page = await self._ledger.covered(
            PROGRESS,
            question.tenant,
            "collection",
            equals={"collection": question.collection},
            reverse=True,
            limit=WAITING,
        )
        heads = await self._ledger.heads(VECTOR, question.tenant, [found.id for found in page.items])
        return list(heads.values())

    async def _search(self, question: _Question, dimension: int) -> None:
        """Ask for more until enough of the hits count, or there are no more."""
        conditions = [Equal("collection", question.collection), *(Equal("metadata", word) for word in question.words)]
        where = Filter(question.tenant, conditions)
        limit = min(question.top_k + SLACK, POINTS_PER_CALL)
        if await self._collections.is_incomplete(question.tenant, physical(dimension)):
            raise Unavailable("the index is filled again", retry_after_ms=FILLED_AFTER_MS)
        while True:
            hits = await self._hits(physical(dimension), where, question.direction, limit)
            counting = await self._take(question, hits)
            if counting >= question.top_k or len(hits) < limit or limit == POINTS_PER_CALL:
                return
            limit = min(limit * WIDER, POINTS_PER_CALL)

    async def _hits(self, name: str, where: Filter, unit: Vector, limit: int) -> list[Hit]:
        with self._breaker.guard():
            try:
                async with asyncio.timeout(SEARCH_SECONDS):
                    return await self._store.search(name, where, dense=unit, limit=limit)
            except TimeoutError as error:
                raise Unavailable("the vector store takes too long", retry_after_ms=RETRY_AFTER_MS) from error

    async def _take(self, question: _Question, hits: Sequence[Hit]) -> int:
        """How many hits are of vectors as they are now. One that was changed since it was indexed is compared with."""
        named = [(parsed(hit.id), hit) for hit in hits]
        heads = await self._ledger.heads(VECTOR, question.tenant, list({point.vector for point, _ in named}))
        changed: list[Head[StoredVector]] = []
        counting = 0
        for point, hit in named:
            head = heads.get(point.vector)
            if head is None or head.value is None or head.value.embedding is None:
                continue
            if head.version == point.version:
                question.add(point.vector, hit.dense or 0.0, head.value.metadata)
                counting += 1
            elif point.vector not in question.found:
                changed.append(head)
        question.compare(changed)
        return counting

    async def _compare_all(self, question: _Question, dimension: int, reason: Exception) -> None:
        """The whole collection, from the ledger."""
        low, high = within_collection(question.collection)
        count = await self._ledger.count(VECTOR, question.tenant, "living", equals={}, low=low, high=high)
        if count > COMPARED:
            raise Unavailable(
                f"the index cannot be asked, and {count} vectors are too many to compare with: {reason}",
                retry_after_ms=RETRY_AFTER_MS,
            ) from reason
        cursor: str | None = None
        while True:
            page = await self._ledger.find(
                VECTOR,
                question.tenant,
                "living",
                equals={},
                low=low,
                high=high,
                cursor=cursor,
                limit=max(1, NUMBERS_READ // dimension),
            )
            question.compare(page.items)
            cursor = page.cursor
            if cursor is None:
                return
            await asyncio.sleep(0)

    async def _make_again(self, dimension: int) -> None:
        """Whoever fills a collection that was lost hears of it when it is made."""
        self._collections.forget(physical(dimension))
        with suppress(HiveError, TimeoutError):
            async with asyncio.timeout(SEARCH_SECONDS):
                await self._collections.ensure(physical(dimension), physical_schema(dimension))
