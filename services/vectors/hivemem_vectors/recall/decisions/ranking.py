"""Scores of chunks, and the ranking of items by their best chunk."""

import math
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple, cast

from hivemem_contracts.vectors import models
from hivemem_vectors.pipeline.decisions.points import PointName, parsed
from hivemem_vectors.recall.decisions.filters import Question, expired
from hivemem_vectors.stores.search import HybridHit

DENSE_SHARE: Final = 0.8
HALF_LIFE_SECONDS: Final = 30 * 86_400.0

_WORTH_OF_A_WORD: Final = 0.66
"""The average worth of a word that is found, in units of the rarest word's idf, by measurement."""


@dataclass(frozen=True)
class Weights:
    """The weights of a score; only their proportions matter. `dense` is the share of the meaning within the relevance,
    and the words have the rest."""

    relevance: float = 1.0
    recency: float = 0.0
    importance: float = 0.0
    dense: float = DENSE_SHARE
    half_life_seconds: float = HALF_LIFE_SECONDS

    def __post_init__(self) -> None:
        assert min(self.relevance, self.recency, self.importance) >= 0
        assert self.relevance + self.recency + self.importance > 0
        assert 0 <= self.dense <= 1
        assert self.half_life_seconds > 0


class Scores(NamedTuple):
    """The parts of a score."""

    dense: float
    keyword: float
    recency: float
    importance: float


def dense_score(cosine: float) -> float:
    """Return the score of a cosine. Opposite meanings are no nearer than unrelated ones."""
    return min(max(cosine, 0.0), 1.0)


def keyword_shares(scores: Mapping[str, float], *, words: int, documents: int) -> dict[str, float]:
    """Return the keyword score of each document from 0 to 1, given its BM25, the words of the question, and the number
    of documents.

    BM25 has no scale of its own. A share of the best score would count a chance hit on "the" in full, so the measure is
    the score that a question of this length would have if all of it were found. It is squared, because half of the
    words say less than half as much.
    """
    full = words * _WORTH_OF_A_WORD * math.log(1 + documents)
    most = max(full, max(scores.values(), default=0.0))
    return {id: (max(score, 0.0) / most) ** 2 if most > 0 else 0.0 for id, score in scores.items()}


def recency(age_seconds: float, half_life_seconds: float) -> float:
    """Return 1 for a new item, halved after each half-life."""
    return math.exp2(-max(age_seconds, 0.0) / half_life_seconds)


def score(scores: Scores, weights: Weights) -> float:
    relevance = weights.dense * scores.dense + (1 - weights.dense) * scores.keyword
    total = weights.relevance + weights.recency + weights.importance
    weighted = weights.relevance * relevance + weights.recency * scores.recency + weights.importance * scores.importance
    return weighted / total


SCORED: Final = ("start", "length", "updated_at", "importance", "expires_at")
"""The values of a point that pieces need."""

USUAL_IMPORTANCE: Final = 0.5
"""The importance of an item without one."""

_DAY_SECONDS: Final = 86_400.0


class Piece(NamedTuple):
    """A chunk that was found: its position in the item's text, and how near it is in meaning and in words."""

    place: str
    version: int
    chunk: int
    start: int
    length: int
    dense: float
    keyword: float
    updated_at: int
    importance: float | None
    is_mirrored: bool = False
    """Whether it was found in the mirror, which has the current version, and not in the index, which may have others.
    """


class Ranked(NamedTuple):
    """An item with its best piece."""

    piece: Piece
    scores: Scores
    score: float


def weights_of(asked: models.Weights | None, *, embedded: bool, by_words: bool = True) -> Weights:
    """Return the weights of a recall. A side that was not searched has no share in the relevance."""
    if asked is None:
        weights = Weights()
    else:
        weights = Weights(
            asked.relevance, asked.recency, asked.importance, asked.dense, asked.half_life_days * _DAY_SECONDS
        )
    if not embedded:
        return replace(weights, dense=0.0)
    return weights if by_words else replace(weights, dense=1.0)


def pieces_of(
    hits: Iterable[HybridHit], question: Question, *, documents: int, replaced: Container[str]
) -> list[Piece]:
    """Return the hits as pieces, given the number of points in the index. Hits that are expired, or whose places are
    `replaced` by newer versions which wait for the index, are left out."""
    named = [(parsed(hit.id), hit) for hit in hits if not expired(hit.values, question.now)]
    counting = [(name, hit) for name, hit in named if name.place not in replaced]
    by_words = {hit.id: hit.sparse for _, hit in counting if hit.sparse}
    keywords = keyword_shares(by_words, words=len(question.words.indices), documents=documents)
    return [_piece(name, hit, keywords.get(hit.id, 0.0)) for name, hit in counting]


def _piece(name: PointName, hit: HybridHit, keyword: float) -> Piece:
    values = cast("Mapping[str, Any]", hit.values)  # as `values_of` made them
    near = dense_score(hit.dense or 0.0)
    return Piece(
        *name, values["start"], values["length"], near, keyword, values["updated_at"], values.get("importance")
    )


def ranking(pieces: Iterable[Piece], weights: Weights, now: int) -> list[Ranked]:
    """Return each item once, by the best piece of its newest version that was found, best first; of equal ones by
    place."""
    best: dict[str, tuple[int, float, Piece]] = {}
    for piece in pieces:
        relevance = weights.dense * piece.dense + (1 - weights.dense) * piece.keyword
        found = best.get(piece.place)
        if found is None or (piece.version, relevance) > found[:2]:
            best[piece.place] = (piece.version, relevance, piece)
    items = [_scored(piece, weights, now) for *_, piece in best.values()]
    return sorted(items, key=lambda item: (-item.score, item.piece.place))


def _scored(piece: Piece, weights: Weights, now: int) -> Ranked:
    scores = Scores(
        piece.dense,
        piece.keyword,
        recency((now - piece.updated_at) / 1_000_000, weights.half_life_seconds),
        USUAL_IMPORTANCE if piece.importance is None else piece.importance,
    )
    return Ranked(piece, scores, score(scores, weights))
