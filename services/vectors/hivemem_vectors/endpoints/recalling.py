"""Recall: what was written is found by what it means and by its words, and what is missing is said."""

import asyncio
import time
from collections.abc import Sequence
from typing import Any, Final

import orjson

from hivemem_contracts.errors import HiveError
from hivemem_contracts.vectors import operations, requests
from hivemem_runtime.ledger.port import Ledger
from hivemem_runtime.service import Call, Service
from hivemem_vectors.adapters.breaker import Breaker
from hivemem_vectors.decisions.budget import Budget
from hivemem_vectors.decisions.filtering import Wanted
from hivemem_vectors.decisions.ranking import ranking, weights_of
from hivemem_vectors.decisions.sparse import query
from hivemem_vectors.endpoints.collections import Collections
from hivemem_vectors.endpoints.hydrating import Hydrating
from hivemem_vectors.endpoints.index import Index
from hivemem_vectors.endpoints.memories import Memories
from hivemem_vectors.endpoints.mirrored import Mirrored
from hivemem_vectors.endpoints.searching import Question, Searching, Shortfall
from hivemem_vectors.endpoints.waiting import Behind
from hivemem_vectors.ports import Embedder, Vector, VectorStore

EMBED_SECONDS: Final = 2.0
"""Longer is as good as not at all: the words alone find something, too."""


class Recalling:
    """`breaker` is that of the store, which the pipeline has as well; `collection` the one that all items are in."""

    def __init__(
        self,
        ledger: Ledger,
        store: VectorStore,
        breaker: Breaker,
        collections: Collections,
        embedder: Embedder,
        memories: Memories,
        behind: Behind,
        *,
        collection: str,
    ) -> None:
        mirrored = Mirrored(ledger, embedder.model)
        self._embedder = embedder
        self._behind = behind
        self._searching = Searching(ledger, Index(store, breaker, collections, embedder, collection), mirrored)
        self._hydrating = Hydrating(ledger, memories)

    async def recall(self, call: Call, body: requests.Recall) -> bytes:
        embedding = asyncio.create_task(self._embedded(body.query))
        try:
            return await self._recall(call, body, embedding)
        finally:
            embedding.cancel()

    async def _recall(self, call: Call, body: requests.Recall, embedding: "asyncio.Task[Vector | Shortfall]") -> bytes:
        tenant = call.sender.tenant
        shortfalls: list[Shortfall] = []
        if not await self._behind.waited(tenant, body):
            shortfalls.append(Shortfall("behind", "not everything that was written before is indexed yet"))
        await asyncio.sleep(0)  # the embedder begins, and what follows is done meanwhile
        waiting = await self._searching.prepare(tenant, body.namespace_prefix)
        words = query(body.query)
        embedded = await _in_time(embedding)
        vector = None
        if isinstance(embedded, Shortfall):
            shortfalls.append(embedded)
        else:
            vector = embedded

        wanted = Wanted.by(body, time.time_ns() // 1_000)
        found = await self._searching.search(Question(tenant, wanted, words, body.limit, vector), waiting)
        shortfalls += found.shortfalls
        weights = weights_of(body.weights, embedded=vector is not None)
        budget = Budget(body.limit, body.max_tokens)
        failure = await self._hydrating.fill(budget, call, ranking(found.pieces, weights, wanted.now), wanted)
        if failure is not None:
            shortfalls.append(Shortfall("memory", f"items are as they were indexed: {failure}"))
        return orjson.dumps({"items": budget.lines, "degraded": _degraded(shortfalls), "cut": budget.cut})

    async def _embedded(self, text: str) -> "Vector | Shortfall":
        try:
            rows = await self._embedder.embed([text])
        except HiveError as error:
            return Shortfall("embedder", f"the question is not embedded, its words alone are searched: {error.detail}")
        vector: Vector = rows[0]
        return vector


async def _in_time(embedding: "asyncio.Task[Vector | Shortfall]") -> "Vector | Shortfall":
    """Counted from here on: what a recall waits for anyway, the embedder has as well."""
    try:
        async with asyncio.timeout(EMBED_SECONDS):
            return await embedding
    except TimeoutError:
        return Shortfall("embedder", "the embedder takes too long, the words of the question alone are searched")


def _degraded(shortfalls: Sequence[Shortfall]) -> dict[str, Any] | None:
    if not shortfalls:
        return None
    reasons = list(dict.fromkeys([shortfall.reason for shortfall in shortfalls]))
    return {"reasons": reasons, "detail": "; ".join([shortfall.detail for shortfall in shortfalls])}


def bind(service: Service, recalling: Recalling) -> None:
    service.handler(operations.RECALL, recalling.recall)
