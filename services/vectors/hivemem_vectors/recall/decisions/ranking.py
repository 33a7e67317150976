"""Scores of chunks, and the ranking of items by their best chunk."""

import math
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple, cast

from hivemem_contracts.vectors import models
from hivemem_vectors.pipeline.decisions.points import PointName, parsed
from hivemem_vectors.recall.decisions.filters import expired
from hivemem_vectors.stores.ports import Hit

DENSE_SHARE: Final = 0.8
HALF_LIFE_SECONDS: Final = 30 * 86_400.0

_WORTH_OF_A_WORD: Final = 0.66
"""What a word of a question is worth on average, found, in units of the rarest one's idf: measured."""


@dataclass(frozen=True)
class Weights:
    """What counts how much; only the proportions matter. Of relevance, `dense` is the share of the meaning, and the
    words have the rest."""

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
    """Where a score came from."""

    dense: float
    keyword: float
    recency: float
    importance: float


def dense_score(cosine: float) -> float:
    """What points elsewhere is as far as what has nothing to do with it."""
    return min(max(cosine, 0.0), 1.0)


def keyword_shares(scores: Mapping[str, float], *, words: int, documents: int) -> dict[str, float]:
    """How much of a question of so many words each one answers, given its BM25 among so many documents.

    BM25 has no scale of its own. As a share of the best score a chance hit on a "the" would count in full where
    nothing better was found, so the measure is what a question as long would score where all of it is found. Squared:
    half of the words say less than half as much.
    """
    full = words * _WORTH_OF_A_WORD * math.log(1 + documents)
    most = max(full, max(scores.values(), default=0.0))
    return {id: (max(score, 0.0) / most) ** 2 if most > 0 else 0.0 for id, score in scores.items()}


def recency(age_seconds: float, half_life_seconds: float) -> float:
    """1 for what is new, half of it after each half-life; what is from the future is new."""
    return math.exp2(-max(age_seconds, 0.0) / half_life_seconds)


def score(scores: Scores, weights: Weights) -> float:
    relevance = weights.dense * scores.dense + (1 - weights.dense) * scores.keyword
    total = weights.relevance + weights.recency + weights.importance
    weighted = weights.relevance * relevance + weights.recency * scores.recency + weights.importance * scores.importance
    return weighted / total


SCORED: Final = ("start", "length", "updated_at", "importance", "expires_at")
"""What of a point's values a piece is made of."""

USUAL_IMPORTANCE: Final = 0.5
"""Of what nobody has said how important it is."""

_DAY_SECONDS: Final = 86_400.0


class NamedHit(NamedTuple):
    name: PointName
    hit: Hit


class Piece(NamedTuple):
    """A chunk of an item's text that was found: where it stands there, and how near it is in meaning and in words."""

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
    """Found in the mirror, which has the version that counts, and not in the index, which may have others."""


class Ranked(NamedTuple):
    """An item by the best of its pieces."""

    piece: Piece
    scores: Scores
    score: float


def weights_of(asked: models.Weights | None, *, embedded: bool) -> Weights:
    """Where the question could not be embedded, the words are all of the relevance."""
    if asked is None:
        weights = Weights()
    else:
        weights = Weights(
            asked.relevance, asked.recency, asked.importance, asked.dense, asked.half_life_days * _DAY_SECONDS
        )
    return weights if embedded else replace(weights, dense=0.0)


def named(hits: Iterable[Hit]) -> list[NamedHit]:
    return [NamedHit(parsed(hit.id), hit) for hit in hits]


def unexpired(hits: Iterable[NamedHit], now: int, replaced: Container[str]) -> list[NamedHit]:
    """Those that have not expired, without those of places that are `replaced` by what waits."""
    return [found for found in hits if found.name.place not in replaced and not expired(found.hit.values, now)]


def pieces_of(hits: Sequence[NamedHit], *, words: int, documents: int) -> list[Piece]:
    """Of a question of so many words, asked of so many points."""
    by_words = {hit.id: hit.sparse for _, hit in hits if hit.sparse}
    keywords = keyword_shares(by_words, words=words, documents=documents)
    return [_piece(name, hit, keywords.get(hit.id, 0.0)) for name, hit in hits]


def _piece(name: PointName, hit: Hit, keyword: float) -> Piece:
    values = cast("Mapping[str, Any]", hit.values)  # as `values_of` made them
    near = dense_score(hit.dense or 0.0)
    return Piece(
        *name, values["start"], values["length"], near, keyword, values["updated_at"], values.get("importance")
    )


def ranking(pieces: Iterable[Piece], weights: Weights, now: int) -> list[Ranked]:
    """Each item once, by the best piece of the newest version that was found of it, the best first; of equals the one
    whose place sorts first."""
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
