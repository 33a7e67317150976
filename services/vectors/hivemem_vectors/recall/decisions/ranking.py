"""Scores of chunks, and the ranking of items by their best chunk."""

import math
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import nlargest
from typing import Any, Final, NamedTuple, cast

from hivemem_contracts.vectors import models
from hivemem_vectors.pipeline.decisions.keywords import AskedWord, text_words
from hivemem_vectors.pipeline.decisions.points import ASKS, NAMES_TIME, PointName, parsed
from hivemem_vectors.pipeline.entities import is_event
from hivemem_vectors.recall.decisions.filters import Question, expired
from hivemem_vectors.recall.decisions.periods import in_periods
from hivemem_vectors.stores.search import HybridHit

DENSE_SHARE: Final = 0.5
HALF_LIFE_SECONDS: Final = 30 * 86_400.0

CHANCE: Final = 0.15
"""Texts that have less than this share of what a question's words are worth have them by chance."""

LEAST: Final = 0.001
"""What a share below that still counts, so that the best match by words comes first where nothing else is known."""

FEW_WORDS: Final = 14.0
"""What is lowered for a text of a few words is the share of the question that it does not have: with this number of
words, a text that has next to nothing of it counts half."""

FEW_WORDS_MEANING: Final = 3.0
"""The same for the meaning: a greeting is near to everything that people say."""

USUAL_WEIGHT: Final = 1.1
"""The weight in its text of a word that is said once, next to its idf in the best score that it gives."""

DIGITS: Final = 6
"""The digits of scores in answers."""

HINT: Final = 0.1
"""How much a hint beside words and meaning changes the relevance."""

PERIOD_HINT: Final = 0.3
"""The same for an event in the period that the question names."""


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
    hints: float = 1.0
    """A factor of the relevance; see `hints_of`."""


def dense_score(cosine: float, words: int) -> float:
    """Return the score of a cosine, given the number of words in the text. Opposite meanings are as far as unrelated
    ones."""
    near = min(max(cosine, 0.0), 1.0)
    return near * _reliance(words, FEW_WORDS_MEANING * (1 - near))


def keyword_score(bm25: float, worth: float, words: int) -> float:
    """Return the keyword score of a text from 0 to 1, given its BM25, the worth of all words of the question together,
    and the number of words in the text.

    BM25 has no scale of its own. A share of the best score would count a chance hit in full, so the measure is what a
    text would have in which each word of the question is found once.
    """
    if worth <= 0 or bm25 <= 0:
        return 0.0
    share = min(bm25 / worth, 1.0)
    share *= _reliance(words, FEW_WORDS * (1 - share))
    return max((share - CHANCE) / (1 - CHANCE), share * LEAST)


def _reliance(words: int, few: float) -> float:
    """Return how far a text of so many words is relied on, where `few` of them are relied on by half."""
    count = max(words, 1)
    return count / (count + few)


def worth_of_words(asked: Iterable[AskedWord], best: Mapping[int, float], documents: int) -> float:
    """Return what all words of a question are worth, given the best score that each form gives to any of the documents.
    A word that no document has is worth as much as one that a single document might have."""
    absent = math.log(1 + (documents + 0.5) / 0.5)
    return sum([max([best.get(form, 0.0) for form in word.forms]) / USUAL_WEIGHT or absent for word in asked])


def matched_words(question: Question, keyword: float, text: str) -> dict[str, float]:
    """Return the words of a question that a text has, and the part of its keyword score that each of them gave."""
    weights, worths = text_words(text).weights, question.worths or {}
    gave = {
        word.word: max([worths.get(form, 0.0) * weights.get(form, 0.0) for form in word.forms])
        for word in question.asked
    }
    whole = sum(gave.values()) or 1.0
    return {word: round(keyword * part / whole, DIGITS) for word, part in gave.items() if part > 0}


def recency(age_seconds: float, half_life_seconds: float) -> float:
    """Return 1 for a new item, halved after each half-life."""
    return math.exp2(-max(age_seconds, 0.0) / half_life_seconds)


def score(scores: Scores, weights: Weights) -> float:
    relevance = min(scores.hints * (weights.dense * scores.dense + (1 - weights.dense) * scores.keyword), 1.0)
    total = weights.relevance + weights.recency + weights.importance
    weighted = weights.relevance * relevance + weights.recency * scores.recency + weights.importance * scores.importance
    return weighted / total


SCORED: Final = ("start", "length", "words", "traits", "created_by", "updated_at", "importance", "expires_at")
"""The values of a point that pieces need."""

CHARACTERS_PER_WORD: Final = 10
"""Of a text without its function words."""

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
    hints: float = 1.0
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


def pieces_of(hits: Iterable[HybridHit], question: Question, *, worth: float, replaced: Container[str]) -> list[Piece]:
    """Return the hits as pieces, given the worth of the question's words. Hits that are expired, or whose places are
    `replaced` by newer versions which wait for the index, are left out."""
    named = [(parsed(hit.id), hit) for hit in hits if not expired(hit.values, question.now)]
    return [_piece(name, hit, question, worth) for name, hit in named if name.place not in replaced]


def _piece(name: PointName, hit: HybridHit, question: Question, worth: float) -> Piece:
    values = cast("Mapping[str, Any]", hit.values)  # as `values_of` made them
    # Points of an earlier release do not say how many words they have.
    words = values.get("words", values["length"] // CHARACTERS_PER_WORD)
    return Piece(
        *name,
        values["start"],
        values["length"],
        dense_score(hit.dense or 0.0, words),
        keyword_score(hit.sparse or 0.0, worth, words),
        values["updated_at"],
        values.get("importance"),
        hints_of(question, name.place, values.get("traits", ()), values.get("created_by", ""), values["updated_at"]),
    )


def hints_of(question: Question, place: str, traits: Container[str], author: str, moment: int) -> float:
    """Return the factor of what hints at a text beside its words and its meaning: questions rarely answer one, a text
    that names a time answers a question for it, and so does an event whose author or whose period the question names.
    """
    hints = 1.0
    if ASKS in traits:
        hints *= 1 - HINT
    if question.is_for_time and NAMES_TIME in traits:
        hints *= 1 + HINT
    if is_event(place):
        if question.names(author):
            hints *= 1 + HINT
        if question.periods and in_periods(question.periods, moment):
            hints *= 1 + PERIOD_HINT
    return hints


def ranking(pieces: Iterable[Piece], weights: Weights, now: int) -> list[Ranked]:
    """Return each item once, by the best piece of its newest version that was found, best first; of equal ones by
    place."""
    newest: dict[str, list[Piece]] = {}
    for piece in pieces:
        found = newest.setdefault(piece.place, [])
        if found and found[0].version < piece.version:
            found.clear()
        if not found or found[0].version == piece.version:
            found.append(piece)
    items = [_scored(_best(found, weights), weights, now) for found in newest.values()]
    return sorted(items, key=lambda item: (-item.score, item.piece.place))


def _best(pieces: Sequence[Piece], weights: Weights) -> Piece:
    """Return the best piece of an item. That the second best is near, too, is a hint."""
    if len(pieces) == 1:
        return pieces[0]
    best, second = nlargest(2, pieces, key=lambda piece: _relevance(piece, weights))
    share = _relevance(second, weights) / (_relevance(best, weights) or 1.0)
    return best._replace(hints=best.hints * (1 + HINT * share))


def _relevance(piece: Piece, weights: Weights) -> float:
    return piece.hints * (weights.dense * piece.dense + (1 - weights.dense) * piece.keyword)


def _scored(piece: Piece, weights: Weights, now: int) -> Ranked:
    scores = Scores(
        piece.dense,
        piece.keyword,
        recency((now - piece.updated_at) / 1_000_000, weights.half_life_seconds),
        USUAL_IMPORTANCE if piece.importance is None else piece.importance,
        piece.hints,
    )
    return Ranked(piece, scores, score(scores, weights))
