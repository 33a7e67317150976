"""What a question finds: in the index, among what waits for it, or, where there is no index, in the mirror."""

from collections.abc import Container, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from hivemem_contracts.errors import HiveError
from hivemem_contracts.vectors.models import DegradedReason
from hivemem_runtime.ledger.port import Ledger
from hivemem_vectors.decisions.filtering import Wanted
from hivemem_vectors.decisions.ranking import NamedHit, Piece, current, named, pieces_of
from hivemem_vectors.decisions.sparse import SparseEmbedding
from hivemem_vectors.endpoints.index import Index
from hivemem_vectors.endpoints.mirrored import Mirrored, Waiting
from hivemem_vectors.entities.items import ITEM
from hivemem_vectors.ports import POINTS_PER_CALL, Vector

POINTS_PER_ITEM: Final = 4
"""How many points are looked at for each item that is wanted: several may be of one item, or of an older version."""

FEWEST_POINTS: Final = 40


@dataclass(frozen=True, slots=True)
class Question:
    """`vector` is None where it could not be embedded."""

    tenant: str
    wanted: Wanted
    words: SparseEmbedding
    limit: int
    vector: Vector | None = None


class Shortfall(NamedTuple):
    """Why an answer is not all that it could be."""

    reason: DegradedReason
    detail: str


class Found(NamedTuple):
    pieces: list[Piece]
    shortfalls: list[Shortfall]


class Searching:
    """In an index, which may fail, and the ledger beside it, which may not."""

    def __init__(self, ledger: Ledger, index: Index, mirrored: Mirrored) -> None:
        self._ledger = ledger
        self._index = index
        self._mirrored = mirrored

    async def prepare(self, tenant: str, prefix: str | None) -> Waiting:
        """All that can be done before the question is embedded."""
        self._index.begin_counting(tenant)
        return await self._mirrored.waiting(tenant, prefix)

    async def search(self, question: Question, waiting: Waiting) -> Found:
        shortfalls = [Shortfall("behind", waiting.detail)] if waiting.items else []
        try:
            hits = await self._hits(question, waiting.mirrors)
        except HiveError as error:
            found = await self._without_index(question, error.detail)
            return Found(found.pieces, [*shortfalls, *found.shortfalls])
        documents = await self._index.count(question.tenant)
        pieces = pieces_of(hits, words=len(question.words.indices), documents=documents)
        if waiting.mirrors:
            pieces += await self._mirrored.among(waiting.mirrors, question.wanted, question.words, question.vector)
        return Found(pieces, shortfalls)

    async def _without_index(self, question: Question, reason: str) -> Found:
        searched = await self._mirrored.everywhere(question.tenant, question.wanted, question.words, question.vector)
        detail = f"the index cannot be used: {reason}"
        if not searched.complete:
            detail += f"; {searched.items} items were looked at instead, and there are more"
        return Found(searched.pieces, [Shortfall("index", detail)])

    async def _hits(self, question: Question, replaced: Container[str]) -> list[NamedHit]:
        """Those that count; asked for twice, where the first time finds too few although there are more."""
        points = max(POINTS_PER_ITEM * question.limit, FEWEST_POINTS)
        found = await self._found(question, points)
        hits = await self._current(question, found, replaced)
        if len(found) >= points and len({hit.name.place for hit in hits}) < question.limit:
            found = await self._found(question, min(points * POINTS_PER_ITEM, POINTS_PER_CALL), unexpired=True)
            hits = await self._current(question, found, replaced)
        return hits

    async def _current(self, question: Question, found: Sequence[NamedHit], replaced: Container[str]) -> list[NamedHit]:
        heads = await self._ledger.heads(ITEM, question.tenant, list({hit.name.place for hit in found}))
        indexed = {
            place: head.value.indexed
            for place, head in heads.items()
            if head.value is not None and head.value.indexed is not None and place not in replaced
        }
        return current(found, indexed, question.wanted.now)

    async def _found(self, question: Question, points: int, *, unexpired: bool = False) -> list[NamedHit]:
        conditions = question.wanted.conditions(unexpired=unexpired)
        return named(await self._index.search(question.tenant, conditions, question.vector, question.words, points))
