"""What a question finds: in the index, among what waits for it, or, where there is no index, in the mirror."""

from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Final, NamedTuple

from hivemem_contracts.errors import HiveError
from hivemem_contracts.vectors.models import DegradedReason
from hivemem_vectors.pipeline.decisions.keywords import SparseEmbedding
from hivemem_vectors.recall.decisions.filters import Wanted
from hivemem_vectors.recall.decisions.ranking import Piece, named, pieces_of, unexpired
from hivemem_vectors.recall.endpoints.index import Index
from hivemem_vectors.recall.endpoints.mirror import Mirrored, Waiting
from hivemem_vectors.stores.ports import POINTS_PER_CALL, Vector

POINTS_PER_ITEM: Final = 4
"""How many points are looked at for each item that is wanted: several may be of one item, or of an older version."""

FEWEST_POINTS: Final = 40


@dataclass(frozen=True, slots=True)
class Question:
    """`vector` may still be under way; None is where it cannot be embedded."""

    tenant: str
    wanted: Wanted
    words: SparseEmbedding
    limit: int
    vector: Awaitable[Vector | None]


class Shortfall(NamedTuple):
    """Why an answer is not all that it could be."""

    reason: DegradedReason
    detail: str


class Found(NamedTuple):
    """Of every version that the index has, unless something newer of the item waits. There may be `more` of them."""

    pieces: list[Piece]
    shortfalls: list[Shortfall]
    more: bool


class Searching:
    """In an index, which may fail, and the ledger beside it, which may not."""

    def __init__(self, index: Index, mirrored: Mirrored) -> None:
        self._index = index
        self._mirrored = mirrored

    async def prepare(self, tenant: str, prefix: str | None) -> Waiting:
        """What has to be known before anything can be searched."""
        self._index.begin_counting(tenant)
        return await self._mirrored.waiting(tenant, prefix)

    async def search(self, question: Question, waiting: Waiting, *, deeper: bool) -> Found:
        """`deeper` is asked for where too little of what was found first counts."""
        shortfalls = [Shortfall("behind", waiting.detail)] if waiting.items else []
        points = max(POINTS_PER_ITEM * question.limit, FEWEST_POINTS)
        if deeper:
            points = min(points * POINTS_PER_ITEM, POINTS_PER_CALL)
        conditions = question.wanted.conditions(unexpired=deeper)
        try:
            hits = await self._index.search(question.tenant, conditions, question.vector, question.words, points)
        except HiveError as error:
            found = await self._without_index(question, error.detail)
            return Found(found.pieces, [*shortfalls, *found.shortfalls], more=False)
        documents = await self._index.count(question.tenant)
        counting = unexpired(named(hits), question.wanted.now, waiting.mirrors)
        pieces = pieces_of(counting, words=len(question.words.indices), documents=documents)
        if waiting.mirrors:
            pieces += await self._mirrored.among(
                waiting.mirrors, question.wanted, question.words, await question.vector
            )
        return Found(pieces, shortfalls, more=not deeper and len(hits) >= points)

    async def _without_index(self, question: Question, reason: str) -> Found:
        searched = await self._mirrored.everywhere(
            question.tenant, question.wanted, question.words, await question.vector
        )
        detail = f"the index cannot be used: {reason}"
        if not searched.complete:
            detail += f"; {searched.items} items were looked at instead, and there are more"
        return Found(searched.pieces, [Shortfall("index", detail)], more=False)
