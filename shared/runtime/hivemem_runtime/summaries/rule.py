"""The rule summary: the sentences that tell most, with their speakers, in the order in which they were said."""

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final

from hivemem_runtime.summaries.transcript import SUMMARY_ROLE, speaker, text_of
from hivemem_runtime.tokens import Message

SENTENCE_CHARACTERS: Final = 400
SENTENCES_PER_MESSAGE: Final = 64

_MISFITS: Final = 32
"""After this many sentences in a row that do not fit, no more are tried."""

_ENDS: Final = re.compile(r"(?<=[.!?])\s+|(?<=[\u3002\uff01\uff1f])")
_WORD: Final = re.compile(r"[^\W_]+")
_NUMBER: Final = re.compile(r"\d")
_MOST_COUNTED: Final = 3
_LONG_WORD: Final = 4
_DECISION_WORDS: Final = """
agree agreed approve approved blocked cancel cancelled choose chose chosen confirm confirmed deadline decide decided
decision due fix fixed must need needs plan postponed promise promised reject rejected remember shall should todo
abgelehnt beschlossen bestätigt entschieden entscheidung frist genehmigt muss müssen soll vereinbart verschoben
accepté annulé confirmé convenu décidé doit refusé reporté
acordado aprobado cancelado confirmado debe decidido rechazado
"""
_DECISIONS: Final = frozenset(_DECISION_WORDS.split())
_DECISION_SCORE: Final = 3.0
_RARITY_SCORE: Final = 2.0
_SUMMARY_SCORE: Final = 2.0
_TOO_SHORT: Final = 3
_WORTH_A_PLACE: Final = 1.0
_HEADER: Final = re.compile(r"Summary of (\d{1,9}) earlier messages:")


@dataclass(frozen=True)
class _Sentence:
    place: int
    message: int
    label: str
    text: str
    words: tuple[str, ...]
    score: float

    @property
    def line(self) -> str:
        return f"{self.label}{self.text}"


def rule_summary(messages: Sequence[Message], max_tokens: int, count: Callable[[str], int]) -> str:
    """Return at most `max_tokens` tokens about messages: the same for the same messages.

    Each speaker's best sentence comes first if it tells anything, then the best of all. Earlier summaries have the role
    `summary`.
    """
    summarized, sentences = _sentences(messages)
    if not sentences:
        return ""
    header = f"Summary of {summarized} earlier messages:"
    chosen = _chosen(sentences, max_tokens - count(header), count)
    while chosen:
        text = "\n".join([header, *_lines(sorted(chosen, key=lambda sentence: sentence.place))])
        if count(text) <= max_tokens:
            return text
        chosen.pop()
    best = max(sentences, key=lambda sentence: (sentence.score, -sentence.place))
    return clipped(best.line, max_tokens, count)


def clipped(text: str, max_tokens: int, count: Callable[[str], int]) -> str:
    """Return the longest beginning of a text, up to the end of a word, that has at most `max_tokens` tokens."""
    if count(text) <= max_tokens:
        return text
    low, high = 0, len(text)
    while high - low > 1:
        half = (low + high) // 2
        low, high = (half, high) if count(text[:half]) <= max_tokens else (low, half)
    whole_words = text[:low].rpartition(" ")[0] if low < len(text) and not text[low].isspace() else text[:low]
    return (whole_words or text[:low]).rstrip()


def _sentences(messages: Sequence[Message]) -> tuple[int, list[_Sentence]]:
    """Return the number of messages, including the ones in earlier summaries, and the scored sentences."""
    summarized = 0
    found: dict[tuple[str, str], tuple[int, float]] = {}
    for at, message in enumerate(messages):
        is_summary = message.get("role") == SUMMARY_ROLE
        text = text_of(message)
        if is_summary and (header := _HEADER.match(text)):
            summarized += int(header[1])
            text = text[header.end() :]
        summarized += not is_summary
        label = "" if is_summary else f"{speaker(message)}: "
        for sentence in _split(text, whole_lines=is_summary):
            found.setdefault((label, sentence), (at, _SUMMARY_SCORE if is_summary else 0.0))
    words = {key: tuple(_WORD.findall(key[1])) for key in found}
    known_in = Counter(word for each in words.values() for word in {word.lower() for word in each})
    return summarized, [
        _Sentence(place, at, *key, words[key], bonus + _score(words[key], known_in, len(found)))
        for place, (key, (at, bonus)) in enumerate(found.items())
    ]


def _split(text: str, *, whole_lines: bool) -> Iterator[str]:
    """Yield the sentences of a text, each cut to a bounded length."""
    number = 0
    for each in text.splitlines():
        for sentence in [each] if whole_lines else _ENDS.split(each):
            shown = " ".join(sentence[: 2 * SENTENCE_CHARACTERS].split())
            if not _WORD.search(shown):
                continue
            if len(shown) > SENTENCE_CHARACTERS:
                shown = shown[:SENTENCE_CHARACTERS].rpartition(" ")[0] or shown[:SENTENCE_CHARACTERS]
                shown += " …"
            yield shown
            number += 1
            if number == SENTENCES_PER_MESSAGE:
                return


def _score(words: tuple[str, ...], known_in: Counter[str], sentences: int) -> float:
    lowered = [word.lower() for word in words]
    numbers = sum(_NUMBER.search(word) is not None for word in words)
    names = sum(word[0].isupper() for word in words[1:])
    decides = not _DECISIONS.isdisjoint(lowered)
    long = [word for word in lowered if len(word) >= _LONG_WORD]
    rarity = sum(math.log(sentences / known_in[word]) for word in long) / (len(long) or 1)
    score = min(numbers, _MOST_COUNTED) + min(names, _MOST_COUNTED) + decides * _DECISION_SCORE
    score += _RARITY_SCORE * rarity / (math.log(sentences) or 1)
    return score - (len(words) < _TOO_SHORT)


def _chosen(sentences: list[_Sentence], budget: int, count: Callable[[str], int]) -> list[_Sentence]:
    """Return the best sentences that fit, the best of each speaker first."""
    telling = [sentence for sentence in sentences if sentence.score >= 0] or sentences
    ranked = sorted(telling, key=lambda sentence: (-sentence.score, sentence.place))
    firsts: dict[str, _Sentence] = {}
    for sentence in ranked:
        if sentence.score < _WORTH_A_PLACE:
            break
        firsts.setdefault(sentence.label, sentence)
    first_places = {sentence.place for sentence in firsts.values()}
    chosen: list[_Sentence] = []
    misfits = 0
    for sentence in [*firsts.values(), *(each for each in ranked if each.place not in first_places)]:
        tokens = count(f"\n{sentence.line}")
        if tokens > budget:
            misfits += 1
            if misfits == _MISFITS:
                break
            continue
        misfits = 0
        budget -= tokens
        chosen.append(sentence)
    return chosen


def _lines(sentences: list[_Sentence]) -> Iterator[str]:
    """Yield a line for each message; the lines of an earlier summary stay apart."""
    for (_, label, _), group in groupby(sentences, lambda each: (each.message, each.label, each.label or each.place)):
        yield label + " ".join(sentence.text for sentence in group)
