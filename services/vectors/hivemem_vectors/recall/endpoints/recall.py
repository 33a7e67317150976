"""The recall operation: memories and events by meaning and by words, with everything that the answer may lack."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

import orjson

from hivemem_contracts.errors import HiveError, InvalidRequest
from hivemem_contracts.vectors import operations, requests
from hivemem_runtime.clock import now_microseconds
from hivemem_runtime.ledger.port import Ledger
from hivemem_runtime.service import Call, Service
from hivemem_vectors.embedders.ports import Embedder
from hivemem_vectors.pipeline.endpoints.peers import MemoryService, SessionService
from hivemem_vectors.recall.decisions.budget import Budget
from hivemem_vectors.recall.decisions.filters import Question
from hivemem_vectors.recall.decisions.ranking import Weights, ranking, weights_of
from hivemem_vectors.recall.decisions.ranking_positions import RankingPosition, cursor_at, position_of
from hivemem_vectors.recall.decisions.reranking import Candidates
from hivemem_vectors.recall.endpoints.hydrate import Hydration
from hivemem_vectors.recall.endpoints.mirror import MirrorSearch, WaitingItems
from hivemem_vectors.recall.endpoints.rerank import rerank
from hivemem_vectors.recall.endpoints.search import ItemSearch, Shortfall
from hivemem_vectors.recall.endpoints.waiting import IndexWaiters
from hivemem_vectors.rerankers.ports import TEXTS_PER_QUESTION, Reranker
from hivemem_vectors.stores.guarded import GuardedStore
from hivemem_vectors.stores.ports import Vector

EMBED_SECONDS: Final = 2.0
"""After this time the words alone are searched."""


def bind(service: Service, recalling: "RecallEndpoint") -> None:
    service.handler(operations.RECALL, recalling.recall)


class AskedRecall(NamedTuple):
    """A recall, its question and the vector of that, and the items that wait for the index."""

    call: Call
    body: requests.Recall
    question: Question
    vector: "asyncio.Task[Vector | None]"
    waiting: WaitingItems


class RecallPage(NamedTuple):
    """The items of one page: in the budget, or as candidates for the reranker. `following` is where the next page
    begins. It `is_short` if a deeper search may fill it."""

    taken: Budget | Candidates
    budget: Budget
    weights: Weights
    following: RankingPosition | None
    shortfalls: list[Shortfall]
    is_short: bool


class RecallEndpoint:
    """`collection` holds the points of all items."""

    def __init__(
        self,
        ledger: Ledger,
        store: GuardedStore,
        embedder: Embedder,
        memories: MemoryService,
        sessions: SessionService,
        waiters: IndexWaiters,
        *,
        collection: str,
        reranker: Reranker | None = None,
    ) -> None:
        self._store = store
        self._embedder = embedder
        self._reranker = reranker
        self._waiters = waiters
        self._search = ItemSearch(store, collection, MirrorSearch(ledger, embedder.model))
        self._hydration = Hydration(ledger, memories, sessions)

    async def recall(self, call: Call, body: requests.Recall) -> bytes:
        if body.rerank and self._reranker is None:
            raise InvalidRequest("rerank: true, but this hive has no reranker: HIVEMEM_RERANKER=none", field="rerank")
        if body.rerank and body.cursor is not None:
            raise InvalidRequest("cursor: the answers of a reranker have no further pages", field="cursor")
        begin = None if body.cursor is None else position_of(body, body.cursor)
        embedding = asyncio.create_task(self._embed(body.query))
        try:
            return await self._recall(call, body, embedding, begin)
        finally:
            embedding.cancel()

    async def _recall(
        self,
        call: Call,
        body: requests.Recall,
        embedding: "asyncio.Task[Vector | Shortfall]",
        begin: RankingPosition | None,
    ) -> bytes:
        tenant = call.sender.tenant
        shortfalls: list[Shortfall] = []
        if not await self._waiters.waited(tenant, body):
            shortfalls.append(Shortfall("behind", "not everything that was written before is indexed yet"))
        await asyncio.sleep(0)  # lets the embedder begin, so that it works during the following steps
        waiting = await self._search.waiting(tenant, body.namespace_prefix)
        # The time limit of the embedding begins here, because the steps before took their time anyway.
        vector = asyncio.create_task(_vector(embedding, shortfalls))
        question = Question.of(tenant, body, now_microseconds())
        reranker = self._reranker if body.rerank else None
        if reranker is not None:
            question = replace(question, limit=max(body.limit, TEXTS_PER_QUESTION))
        asked = AskedRecall(call, body, question, vector, waiting)
        if begin is None:
            first = RankingPosition.first(question.limit, question.now)
            page = await self._page(asked, first)
            if page.is_short:
                page = await self._page(asked, first.again)
        else:
            page = await self._page(asked, begin, await self._answered(asked, begin))
        following = page.following
        shortfalls += page.shortfalls
        if reranker is not None and isinstance(page.taken, Candidates):
            shortfalls += await rerank(reranker, body.query, page.taken, page.weights, page.budget)
            following = None
        return orjson.dumps(
            {
                "items": page.budget.lines,
                "cursor": None if following is None else cursor_at(body, following),
                "degraded": _degraded(shortfalls),
                "cut": page.budget.cut,
            }
        )

    async def _answered(self, asked: AskedRecall, at: RankingPosition) -> frozenset[str]:
        """Return the places of all items that the pages of the search before had."""
        if not at.before:
            return frozenset()
        earlier = at._replace(points=at.before)
        found = await self._search.search(asked.question, asked.vector, asked.waiting, earlier)
        return frozenset([piece.place for piece in found.pieces])

    async def _page(
        self, asked: AskedRecall, at: RankingPosition, answered: frozenset[str] = frozenset()
    ) -> RecallPage:
        """Search, and take the items behind a position, without those on earlier pages."""
        call, body, question, vector, waiting = asked
        found = await self._search.search(question, vector, waiting, at)
        weights = weights_of(body.weights, embedded=await vector is not None, by_words=self._store.words.able)
        budget = Budget(body.limit, body.max_tokens)
        taken = Candidates(question.limit) if body.rerank else budget
        ranked = [
            item
            for item in ranking(found.pieces, weights, at.asked_at)
            if at.precedes(item) and item.piece.place not in answered
        ]
        explained = replace(question, worths=found.worths) if body.explain else question
        filled = await self._hydration.fill(taken, call, ranked, explained, body.context)
        return RecallPage(
            taken,
            budget,
            weights,
            at.after(ranked, filled.done, more=found.more),
            [*found.shortfalls, *filled.shortfalls],
            taken.missing > 0 and found.more,
        )

    async def _embed(self, text: str) -> "Vector | Shortfall":
        try:
            rows = await self._embedder.embed([text])
        except HiveError as error:
            return Shortfall("embedder", f"the question is not embedded, its words alone are searched: {error.detail}")
        vector: Vector = rows[0]
        return vector


async def _vector(embedding: "asyncio.Task[Vector | Shortfall]", shortfalls: list[Shortfall]) -> Vector | None:
    """Return the vector of a question; None, with a shortfall, if the embedder fails or takes too long."""
    try:
        async with asyncio.timeout(EMBED_SECONDS):
            # An embedding that is late is of use to the next recall.
            embedded = await asyncio.shield(embedding)
    except TimeoutError:
        embedded = Shortfall("embedder", "the embedder takes too long, the words of the question alone are searched")
    if isinstance(embedded, Shortfall):
        shortfalls.append(embedded)
        return None
    return embedded


def _degraded(shortfalls: Sequence[Shortfall]) -> dict[str, Any] | None:
    if not shortfalls:
        return None
    reasons = list(dict.fromkeys([shortfall.reason for shortfall in shortfalls]))
    return {"reasons": reasons, "detail": "; ".join([shortfall.detail for shortfall in shortfalls])}
