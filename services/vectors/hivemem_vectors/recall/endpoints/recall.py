"""Recall: what was written is found by what it means and by its words, and what is missing is said."""

import asyncio
from collections.abc import Generator, Sequence
from typing import Any, Final

import orjson

from hivemem_contracts.errors import HiveError
from hivemem_contracts.vectors import operations, requests
from hivemem_runtime.circuit_breaker import Breaker
from hivemem_runtime.clock import now_microseconds
from hivemem_runtime.ledger.port import Ledger
from hivemem_runtime.service import Call, Service
from hivemem_vectors.embedders.ports import Embedder
from hivemem_vectors.pipeline.decisions.keywords import query
from hivemem_vectors.pipeline.endpoints.memory_service import Memories
from hivemem_vectors.recall.decisions.budget import Budget
from hivemem_vectors.recall.decisions.filters import Wanted
from hivemem_vectors.recall.decisions.ranking import ranking, weights_of
from hivemem_vectors.recall.endpoints.hydrate import Hydrating
from hivemem_vectors.recall.endpoints.index import Index
from hivemem_vectors.recall.endpoints.mirror import Mirrored
from hivemem_vectors.recall.endpoints.search import Question, Searching, Shortfall
from hivemem_vectors.recall.endpoints.waiting import Behind
from hivemem_vectors.stores.ports import Vector, VectorStore
from hivemem_vectors.upkeep.endpoints.collections import Collections

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
        self._searching = Searching(Index(store, breaker, collections, embedder, collection), mirrored)
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
        # Counted from here on: what a recall waits for anyway, the embedder has as well.
        vector = _Embedded(embedding, asyncio.get_running_loop().time() + EMBED_SECONDS)
        wanted = Wanted.by(body, now_microseconds())
        question = Question(tenant, wanted, query(body.query), body.limit, vector)
        for deeper in (False, True):
            found = await self._searching.search(question, waiting, deeper=deeper)
            weights = weights_of(body.weights, embedded=await vector is not None)
            budget = Budget(body.limit, body.max_tokens)
            failure = await self._hydrating.fill(budget, call, ranking(found.pieces, weights, wanted.now), wanted)
            if not budget.missing or not found.more:
                break
        shortfalls += [*vector.shortfalls, *found.shortfalls]
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


class _Embedded:
    """A question's vector, as often as it is awaited; None, and a shortfall, where it cannot be had in time."""

    def __init__(self, embedding: "asyncio.Task[Vector | Shortfall]", until: float) -> None:
        self._embedding = embedding
        self._until = until
        self.shortfalls: list[Shortfall] = []

    def __await__(self) -> Generator[Any, None, Vector | None]:
        return self._arrived().__await__()

    async def _arrived(self) -> Vector | None:
        if self.shortfalls:
            return None
        try:
            async with asyncio.timeout_at(self._until):
                # Who gives up waiting for it, as a search in time does, does not keep the others from it.
                embedded = await asyncio.shield(self._embedding)
        except TimeoutError:
            detail = "the embedder takes too long, the words of the question alone are searched"
            embedded = Shortfall("embedder", detail)
        if isinstance(embedded, Shortfall):
            self.shortfalls.append(embedded)
            return None
        return embedded


def _degraded(shortfalls: Sequence[Shortfall]) -> dict[str, Any] | None:
    if not shortfalls:
        return None
    reasons = list(dict.fromkeys([shortfall.reason for shortfall in shortfalls]))
    return {"reasons": reasons, "detail": "; ".join([shortfall.detail for shortfall in shortfalls])}


def bind(service: Service, recalling: Recalling) -> None:
    service.handler(operations.RECALL, recalling.recall)
