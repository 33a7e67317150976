"""Scores the answer to a question by the turns of its evidence."""

import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from benchmarks.quality.dialogues import Dialogue, Question

BUDGET_TOKENS: Final = 1_500

Found = Sequence[Sequence[str]]
"""The hits of an answer, the best first; each is the id of its turn, followed by the ids of its neighbours."""


@dataclass(frozen=True)
class Score:
    category: str
    answerable: bool
    parts: Mapping[str, float]
    """nDCG@10, recall, MRR and the session hit, each from 0 to 1."""

    tokens: float
    """The tokens of the answer up to the last turn of the evidence; infinite if one is not found."""


def score(dialogue: Dialogue, question: Question, found: Found) -> Score:
    hits = [hit[0] for hit in found]
    ranks = [rank for rank, id in enumerate(hits) if id in question.evidence]
    sessions = {dialogue.by_id[id].session for id in question.evidence}
    best = sum(1 / math.log2(rank + 2) for rank in range(min(10, len(question.evidence))))
    return Score(
        question.category,
        question.answerable,
        {
            "nDCG@10": sum(1 / math.log2(rank + 2) for rank in ranks if rank < 10) / best,
            **{f"recall@{k}": sum(rank < k for rank in ranks) / len(question.evidence) for k in (5, 10, 20)},
            "MRR": 1 / (ranks[0] + 1) if ranks else 0.0,
            "session hit@10": float(any(dialogue.by_id[id].session in sessions for id in hits[:10])),
        },
        _tokens_to_cover(dialogue, question, found),
    )


def _tokens_to_cover(dialogue: Dialogue, question: Question, found: Found) -> float:
    missing, seen, tokens = set(question.evidence), set[str](), 0
    for hit in found:
        new = set(hit) - seen
        tokens += sum(dialogue.tokens[id] for id in new)
        seen |= new
        missing -= new
        if not missing:
            return tokens
    return math.inf


def figures(scores: Iterable[Score]) -> dict[str, float]:
    """Return the figures of a set: the parts in percent, averaged over the questions of each category and then over the
    categories; and what covering the evidence of the answerable questions takes."""
    scores = list(scores)
    categories: dict[str, list[Score]] = defaultdict(list)
    for one in scores:
        categories[one.category].append(one)
    by_category = {
        name: {part: 100 * statistics.fmean(one.parts[part] for one in some) for part in some[0].parts}
        for name, some in sorted(categories.items())
    }
    macro = {part: statistics.fmean(some[part] for some in by_category.values()) for part in scores[0].parts}
    tokens = [one.tokens for one in scores if one.answerable]
    covered = 100 * sum(count <= BUDGET_TOKENS for count in tokens) / len(tokens)
    of_categories = {f"nDCG@10 of {name}": some["nDCG@10"] for name, some in by_category.items()}
    return {**macro, COVERED: covered, TOKENS: statistics.median(tokens), **of_categories}


COVERED: Final = f"covered in {BUDGET_TOKENS:,} tokens"
TOKENS: Final = "tokens to cover"
"""The median of the answerable questions."""
