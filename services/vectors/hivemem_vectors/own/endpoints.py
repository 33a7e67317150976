"""The operations on users' own vectors.

A command is one commit, which the index follows. A query asks the index, and compares exactly with vectors that are not
indexed yet: acknowledged vectors are always found, because the ledger marks vectors that the index lacks before a query
begins.
"""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from hivemem_contracts.errors import Unavailable
from hivemem_contracts.vectors import operations, requests
from hivemem_contracts.vectors.models import VectorMatch
from hivemem_contracts.vectors.replies import VectorDeleted, VectorMatches, VectorStored
from hivemem_runtime.ledger.pages import pages
from hivemem_runtime.ledger.port import Decide, Head, Ledger, Outcome, Write
from hivemem_runtime.service import Call, Service
from hivemem_vectors.own.decisions import (
    check_dimension,
    delete_vector,
    dimension_of,
    direction,
    exact_cosines,
    given_vector,
    holds,
    parsed,
    physical,
    store_vector,
    wanted_words,
)
from hivemem_vectors.own.entities import (
    COLLECTION,
    PROGRESS,
    VECTOR,
    StoredVector,
    collection_and_id,
    unpacked_vector,
    vector_id,
    within_collection,
)
from hivemem_vectors.own.reactions import VectorSync
from hivemem_vectors.stores.guarded import GuardedStore
from hivemem_vectors.stores.ports import POINTS_PER_CALL, Equal, Filter, Hit, Nearest, Vector


def bind(service: Service, store: GuardedStore, sync: VectorSync) -> None:
    service.command(operations.STORE, plan_store, partial(answer_store, sync))
    service.command(operations.DELETE, plan_delete, partial(answer_delete, sync))
    service.handler(operations.QUERY, VectorQuery(service.ledger, store).query)


async def answer_store(sync: VectorSync, call: Call, body: requests.StoreVector, outcome: Outcome) -> VectorStored:
    stamp = outcome.stamp
    assert stamp is not None, "to store is to append"
    await _follow(sync, outcome)
    return VectorStored.model_construct(
        id=body.id, collection=body.collection, version=stamp.version, duplicate=outcome.duplicate
    )


async def answer_delete(sync: VectorSync, call: Call, body: requests.DeleteVector, outcome: Outcome) -> VectorDeleted:
    await _follow(sync, outcome)
    return VectorDeleted.model_construct(
        id=body.id, collection=body.collection, deleted=outcome.stamp is not None, duplicate=outcome.duplicate
    )


async def _follow(sync: VectorSync, outcome: Outcome) -> None:
    """Bring a new change to the index. A repeated command has been followed already, or a timer will do so."""
    if outcome.stamp is not None and not outcome.duplicate:
        await sync.soon(outcome.stamp.tenant, outcome.stamp.id)


def plan_store(call: Call, body: requests.StoreVector) -> Write:
    embedding, vector = given_vector(body.embedding), vector_id(body.collection, body.id)
    return _write(
        call, vector, body.collection, lambda heads, now: store_vector(heads, vector, embedding, body.metadata, now)
    )


def plan_delete(call: Call, body: requests.DeleteVector) -> Write:
    vector = vector_id(body.collection, body.id)
    return _write(call, vector, body.collection, lambda heads, now: delete_vector(heads, vector, now))


def _write(call: Call, vector: str, collection: str, decide: Decide) -> Write:
    return call.write(VECTOR, vector, decide, ((PROGRESS, vector), (COLLECTION, collection)))


WAITING: Final = 200
"""The most unindexed vectors that a query compares with, newest first."""
COMPARED: Final = 2_000
"""The largest collection that is compared with as a whole while the index is unavailable."""
NUMBERS_READ: Final = 200_000
"""The most numbers of vectors in one read from the ledger."""
SLACK: Final = 16
"""How many more hits than wanted are searched, because some may be deleted."""
WIDER: Final = 4
RETRY_AFTER_MS: Final = 1_000


@dataclass(slots=True)
class _Question:
    tenant: str
    collection: str
    top_k: int
    direction: Vector
    words: Sequence[str]
    found: dict[str, VectorMatch] = field(default_factory=dict[str, VectorMatch])
    """The matches by vector."""

    def compare(self, heads: Iterable[Head[StoredVector]]) -> None:
        """Score vectors by their embeddings. Deleted vectors and vectors that do not match the filter are skipped."""
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


class VectorQuery:
    def __init__(self, ledger: Ledger, store: GuardedStore) -> None:
        self._ledger = ledger
        self._store = store

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
        """Search, with a growing limit, until enough hits count or there are no more."""
        conditions = [Equal("collection", question.collection), *(Equal("metadata", word) for word in question.words)]
        where = Filter(question.tenant, conditions)
        limit = min(question.top_k + SLACK, POINTS_PER_CALL)
        while True:
            hits = await self._store.nearest(physical(dimension), Nearest(where, question.direction, limit))
            counting = await self._take(question, hits)
            if counting >= question.top_k or len(hits) < limit or limit == POINTS_PER_CALL:
                return
            limit = min(limit * WIDER, POINTS_PER_CALL)

    async def _take(self, question: _Question, hits: Sequence[Hit]) -> int:
        """Take the hits, and return how many are up to date. A vector that has changed since is compared exactly."""
        named = [(parsed(hit.id), hit) for hit in hits]
        heads = await self._ledger.heads(VECTOR, question.tenant, list({point.vector for point, _ in named}))
        changed: list[Head[StoredVector]] = []
        counting = 0
        for point, hit in named:
            head = heads.get(point.vector)
            if head is None or head.value is None or head.value.embedding is None:
                continue
            if head.version == point.version:
                question.add(point.vector, hit.score, head.value.metadata)
                counting += 1
            elif point.vector not in question.found:
                changed.append(head)
        question.compare(changed)
        return counting

    async def _compare_all(self, question: _Question, dimension: int, reason: Exception) -> None:
        """Compare with the whole collection, read from the ledger."""
        low, high = within_collection(question.collection)
        count = await self._ledger.count(VECTOR, question.tenant, "living", equals={}, low=low, high=high)
        if count > COMPARED:
            raise Unavailable(
                f"the index cannot be asked, and {count} vectors are too many to compare with: {reason}",
                retry_after_ms=RETRY_AFTER_MS,
            ) from reason
        limit = max(1, NUMBERS_READ // dimension)
        async for heads in pages(
            lambda cursor: self._ledger.find(
                VECTOR, question.tenant, "living", equals={}, low=low, high=high, cursor=cursor, limit=limit
            )
        ):
            question.compare(heads)
            await asyncio.sleep(0)
