"""The order that a reranker gives to the items of an answer."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import orjson

from hivemem_vectors.recall.decisions.ranking import DIGITS, Weights
from hivemem_vectors.rerankers.ports import TEXTS_PER_QUESTION

CANDIDATE_BYTES: Final = 8 * 1024 * 1024

AnswerItem = dict[str, Any]


class Candidates:
    """Takes the best items in order, as a budget does, so that a reranker can choose among them."""

    def __init__(self, limit: int, max_bytes: int = CANDIDATE_BYTES) -> None:
        self.items: list[AnswerItem] = []
        self._limit = limit
        self._room = max_bytes

    @property
    def missing(self) -> int:
        """The number of items that still fit."""
        return self._limit - len(self.items) if self._room > 0 else 0

    def add(self, item: AnswerItem) -> bool:
        self.items.append(item)
        self._room -= len(orjson.dumps(item))
        return True

    @property
    def readable(self) -> list[AnswerItem]:
        """The best items that have a text. The text of an item that has changed since it was indexed is not known."""
        return [item for item in self.items if item["text"]][:TEXTS_PER_QUESTION]


def reranked(candidates: Candidates, scores: Sequence[float], weights: Weights) -> list[AnswerItem]:
    """Return the items by their new scores, given the reranker's score of each readable one, which becomes its
    relevance. Items without one follow in their order."""
    read = candidates.readable
    exact = [_score(item["scores"], rerank, weights) for item, rerank in zip(read, scores, strict=True)]
    for item, score, rerank in zip(read, exact, scores, strict=True):
        item["score"], item["scores"]["rerank"] = round(score, DIGITS), round(rerank, DIGITS)
    best = sorted(range(len(read)), key=lambda at: -exact[at])
    return [read[at] for at in best] + [item for item in candidates.items if item["scores"]["rerank"] is None]


def _score(parts: Mapping[str, float], rerank: float, weights: Weights) -> float:
    weighted = (
        weights.relevance * rerank + weights.recency * parts["recency"] + weights.importance * parts["importance"]
    )
    return weighted / (weights.relevance + weights.recency + weights.importance)
