"""The search for one question: in the index, among newer versions that wait for it, or in the mirror instead of it."""

import asyncio
from collections.abc import Awaitable, Mapping
from typing import Final, NamedTuple

from hivemem_contracts.errors import HiveError
from hivemem_contracts.vectors.models import DegradedReason
from hivemem_vectors.pipeline.decisions.keywords import sparse_query
from hivemem_vectors.pipeline.endpoints.outdated_words import OutdatedWords
from hivemem_vectors.recall.decisions.filters import Question
from hivemem_vectors.recall.decisions.ranking import SCORED, Piece, pieces_of, worth_of_words
from hivemem_vectors.recall.decisions.ranking_positions import RankingPosition
from hivemem_vectors.recall.endpoints.mirror import MirrorSearch, WaitingItems
from hivemem_vectors.recall.endpoints.word_worths import WordWorths
from hivemem_vectors.stores.guarded import GuardedStore
from hivemem_vectors.stores.ports import POINTS_PER_CALL, Filter, Vector
from hivemem_vectors.stores.search import hybrid_search

COUNT_SECONDS: Final = 5.0
"""How long the count of points is reused: only its order of magnitude matters."""


class Shortfall(NamedTuple):
    """Why an answer may lack something."""

    reason: DegradedReason
    detail: str


class Findings(NamedTuple):
    """The pieces that were found, of any version in the index unless a newer one waits. With `more`, a deeper search
    may find more of them."""

    pieces: list[Piece]
    shortfalls: list[Shortfall]
    more: bool
    worths: Mapping[int, float] = {}
    """What each form of the question's words is worth."""


class ItemSearch:
    """Searches the index, which may fail, and the ledger beside it."""

    def __init__(self, store: GuardedStore, collection: str, mirrors: MirrorSearch) -> None:
        self._store = store
        self._collection = collection
        self._mirrors = mirrors
        self._outdated = OutdatedWords(store, collection)
        self._words = WordWorths(store, collection)
        self._points = 0
        self._counted_at = -COUNT_SECONDS

    async def waiting(self, tenant: str, prefix: str | None) -> WaitingItems:
        """Return the items that wait for the index."""
        return await self._mirrors.waiting(tenant, prefix)

    async def search(
        self, question: Question, vector: Awaitable[Vector | None], waiting: WaitingItems, at: RankingPosition
    ) -> Findings:
        """Search by the vector, and by the words while it is under way. A deeper search than the first one leaves out
        expired items, because some of its kind may have crowded out others."""
        shortfalls = [Shortfall("behind", waiting.detail)] if waiting.items else []
        where = Filter(question.tenant, question.conditions(unexpired=at.points > at.base))
        words = sparse_query(question.asked) if question.asked else None
        try:
            # Both are remembered from earlier recalls, and fetched while the embedding is under way.
            documents = await self._count()
            best = await self._words.worths(question.tenant, question.asked, documents)
            has_outdated = await self._outdated.remain(question.tenant)
            hits = await hybrid_search(
                self._store, self._collection, where, vector, words, limit=at.points, values=SCORED
            )
        except HiveError as error:
            found = await self._without_index(question, await vector, error.detail)
            return Findings(found.pieces, [*shortfalls, *found.shortfalls], more=False)
        if has_outdated:
            shortfalls.append(Shortfall("words", "not all texts have the words of this release in the index yet"))
        worth = worth_of_words(question.asked, best, documents)
        pieces = pieces_of(hits, question, worth=worth, replaced=waiting.mirrors)
        if waiting.mirrors:
            pieces += await self._mirrors.among(waiting.mirrors, question, await vector)
        return Findings(pieces, shortfalls, at.points < POINTS_PER_CALL and len(hits) >= at.points, best)

    async def _without_index(self, question: Question, vector: Vector | None, reason: str) -> Findings:
        searched = await self._mirrors.everywhere(question, vector)
        detail = f"the index cannot be used: {reason}"
        if not searched.complete:
            detail += f"; {searched.items} items were looked at instead, and there are more"
        return Findings(searched.pieces, [Shortfall("index", detail)], more=False)

    async def _count(self) -> int:
        """Return the number of points of all tenants as of a few seconds ago, or earlier while the store is down."""
        now = asyncio.get_running_loop().time()
        if now - self._counted_at >= COUNT_SECONDS and self._store.breaker.state == "closed":
            self._points = await self._store.count(self._collection)
            self._counted_at = now
        return self._points
