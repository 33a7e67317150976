"""One score of several: how near in meaning, how near in words, how new, how important. All from 0 to 1."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

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
