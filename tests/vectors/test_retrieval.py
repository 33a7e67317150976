"""The quality of ranking is tested: how many of the agents' questions find their answer among typical memories.

`retrieval/` has 423 memories and 259 questions, of three kinds: by meaning alone, in other words than the memory's; by
words that mean nothing to a model, such as names and codes; and by both. Many memories differ only slightly. The test
uses the packaged embedder and exact search, so that it measures the ranking and no index.
"""

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest_asyncio

from hivemem_vectors.embedders.offline.embedder import OfflineEmbedder
from hivemem_vectors.pipeline.decisions.keywords import asked_words, exact_scores, text_words
from hivemem_vectors.recall.decisions.mirror_scan import cosines
from hivemem_vectors.recall.decisions.ranking import (
    Scores,
    Weights,
    dense_score,
    keyword_score,
    score,
    worth_of_words,
)

SET: Final = Path(__file__).parent / "retrieval"
RECALL_FLOOR: Final = 0.94
NDCG_FLOOR: Final = 0.84
"""Measured: 0.954 and 0.853. Processors with other 8-bit instructions give slightly different values."""

Ranking = Callable[[int], Mapping[str, float]]


@dataclass(frozen=True)
class Quality:
    recall: float
    """The share of answers among the first five hits."""
    ndcg: float
    """The normalized discounted cumulative gain of the first ten hits."""


@dataclass(frozen=True)
class Sides:
    """The score of each memory for each question, by meaning and by words."""

    questions: list[dict[str, Any]]
    dense: list[dict[str, float]]
    keywords: list[dict[str, float]]

    def quality(self, ranking: Ranking, kind: str | None = None) -> Quality:
        recalls: list[float] = []
        gains: list[float] = []
        for at, question in enumerate(self.questions):
            if kind in (None, question["kind"]):
                answers = set(question["answers"])
                near = ranking(at)
                top = sorted(near, key=lambda id: (-near[id], id))[:10]
                recalls.append(len(answers & set(top[:5])) / len(answers))
                gains.append(_ndcg(top, answers))
        return Quality(float(np.mean(recalls)), float(np.mean(gains)))

    def by_dense(self, at: int) -> Mapping[str, float]:
        return self.dense[at]

    def by_keyword(self, at: int) -> Mapping[str, float]:
        return self.keywords[at]

    def by_both(self, at: int) -> Mapping[str, float]:
        words, weights = self.keywords[at], Weights()
        return {id: score(Scores(near, words[id], 0.0, 0.0), weights) for id, near in self.dense[at].items()}


def _ndcg(top: list[str], answers: set[str]) -> float:
    gained = sum([1 / math.log2(at + 2) for at, id in enumerate(top) if id in answers])
    return gained / sum([1 / math.log2(at + 2) for at in range(min(len(answers), len(top)))])


def _read(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (SET / name).read_text(encoding="utf-8").splitlines()]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def sides() -> Sides:
    memories, questions = _read("memories.jsonl"), _read("questions.jsonl")
    ids = [memory["id"] for memory in memories]
    embedder = OfflineEmbedder()
    kept = await embedder.embed([memory["text"] for memory in memories])
    asked = await embedder.embed([question["question"] for question in questions])
    await embedder.close()

    texts = [text_words(memory["text"]) for memory in memories]
    keywords: list[dict[str, float]] = []
    for question in questions:
        words = asked_words(question["question"])
        scores = exact_scores(words, [text.weights for text in texts])
        worth = worth_of_words(words, scores.best, len(texts))
        found = [keyword_score(bm25, worth, text.words) for bm25, text in zip(scores.bm25, texts, strict=True)]
        keywords.append(dict(zip(ids, found, strict=True)))
    near = [
        [dense_score(cosine, text.words) for cosine, text in zip(cosines(row, kept).tolist(), texts, strict=True)]
        for row in asked
    ]
    return Sides(questions, [dict(zip(ids, row, strict=True)) for row in near], keywords)


def test_the_set_is_large_and_whole() -> None:
    memories, questions = _read("memories.jsonl"), _read("questions.jsonl")
    ids = {memory["id"] for memory in memories}

    assert len(ids) == len(memories) == len({memory["text"] for memory in memories}) >= 400
    assert len({question["question"] for question in questions}) == len(questions) >= 200
    assert all(question["answers"] and set(question["answers"]) <= ids for question in questions)
    assert {question["kind"] for question in questions} == {"meaning", "words", "both"}


def test_recall_finds_what_was_asked_for(sides: Sides) -> None:
    both = sides.quality(sides.by_both)

    assert both.recall >= RECALL_FLOOR
    assert both.ndcg >= NDCG_FLOOR


def test_both_sides_together_beat_each_alone(sides: Sides) -> None:
    both = sides.quality(sides.by_both)

    for alone in (sides.quality(sides.by_dense), sides.quality(sides.by_keyword)):
        assert both.recall >= alone.recall
        assert both.ndcg > alone.ndcg


def test_neither_side_would_do(sides: Sides) -> None:
    """The set must need both sides: names and codes need words, paraphrases need meaning."""
    assert sides.quality(sides.by_keyword, "words").ndcg > sides.quality(sides.by_dense, "words").ndcg + 0.05
    assert sides.quality(sides.by_dense, "meaning").ndcg > sides.quality(sides.by_keyword, "meaning").ndcg + 0.3


def test_words_do_not_spoil_the_meaning_nor_meaning_the_words(sides: Sides) -> None:
    assert sides.quality(sides.by_both, "meaning").ndcg > sides.quality(sides.by_dense, "meaning").ndcg - 0.02
    assert sides.quality(sides.by_both, "words").ndcg > sides.quality(sides.by_keyword, "words").ndcg - 0.02
