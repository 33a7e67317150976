"""The words of a text as the keyword side sees them."""

import math
import re
import unicodedata
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

from hivemem_vectors.pipeline.decisions.languages import ENGLISH, content_words, language_of, stem

WORD_CHARACTERS: Final = 64
"""Longer words are cut: nobody searches for the end of a blob."""

_COMPOUND: Final = re.compile(r"\w+(?:[-.:/@+#]\w+)*")
_PARTS: Final = re.compile(r"[^\W_]+")
_WITHOUT_SPACES: Final = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\u0e00-\u0e7f]+")
"""Scripts without spaces between words: each character, and each pair of neighbours, is a word."""


def words(text: str) -> list[str]:
    """Return the words of a text in order, lower-cased and without accents. A compound such as `ERR-4312` or `max_age`
    is a word, and so is each of its parts."""
    found: list[str] = []
    for match in _COMPOUND.finditer(folded(text)):
        compound = match[0]
        if compound.isalnum() and compound.isascii():
            # By far the most are a single part.
            found.append(compound[:WORD_CHARACTERS])
            continue
        parts = _PARTS.findall(compound)
        if len(parts) > 1:
            found.append(compound[:WORD_CHARACTERS])
        for part in parts:
            found.extend(_of_part(part))
    return found


def folded(text: str) -> str:
    """Return the text without case, accents and compatibility forms of characters."""
    if text.isascii():
        return text.lower()
    decomposed = unicodedata.normalize("NFKD", text)
    bare = "".join([char for char in decomposed if not unicodedata.combining(char)])
    return unicodedata.normalize("NFC", bare).casefold()


def _of_part(part: str) -> Iterator[str]:
    if part.isascii():
        yield part[:WORD_CHARACTERS]
        return
    rest = part
    for run in _WITHOUT_SPACES.findall(part):
        yield from run
        yield from (run[at : at + 2] for at in range(len(run) - 1))
        rest = rest.replace(run, " ")
    yield from (piece[:WORD_CHARACTERS] for piece in rest.split())


SCHEME: Final = 2
"""Which words points have: 1 for the words as they are, 2 for their stems. It is kept with the index, and points of an
earlier scheme get their words anew."""

WORDS_PER_TEXT: Final = 4_096
"""The most distinct words of one sparse vector; a longer text loses the rest."""

WORDS_PER_QUESTION: Final = 64

_SATURATION: Final = 0.3
"""BM25's k1: how soon a repeated word stops counting. Most memories say a thing once."""

_LENGTH_SHARE: Final = 0.2
"""BM25's b: how much long texts are penalized."""

_TYPICAL_WORDS: Final = 32.0
"""The length of a typical text. It is a constant, because the mean of a collection changes while weights stay."""


class SparseEmbedding(NamedTuple):
    """The hashes of words in rising order, and their weights."""

    indices: tuple[int, ...]
    values: tuple[float, ...]


TermWeights: TypeAlias = dict[int, float]


class TextWords(NamedTuple):
    """The weight of each term of a text by its hash, and the number of words that are no function words."""

    weights: TermWeights
    words: int


def text_words(text: str, beside: str = "") -> TextWords:
    """Return the stems of a text, and of a few words `beside` it that do not count. A text in another language than
    English also has its words as they are, because a short question may not tell its language."""
    found = words(text)
    language = language_of(found)
    content = content_words(found, language)
    terms = [stem(word, language) for word in content]
    if language != ENGLISH:
        terms += [word for word, its_stem in zip(content, terms, strict=True) if word != its_stem]
    terms += [stem(word, ENGLISH) for word in words(beside)]
    usual = 1 - _LENGTH_SHARE + _LENGTH_SHARE * len(content) / _TYPICAL_WORDS
    weights = {
        index: count * (_SATURATION + 1) / (count + _SATURATION * usual) for index, count in _counted(terms).items()
    }
    return TextWords(weights, len(content))


class AskedWord(NamedTuple):
    """A word of a question, with the hashes under which texts may have it."""

    word: str
    forms: tuple[int, ...]


def asked_words(text: str) -> list[AskedWord]:
    """Return the words of a question without function words, each once."""
    found = words(text)
    language = language_of(found)
    asked: dict[str, AskedWord] = {}
    for word in content_words(found, language):
        its_stem = stem(word, language)
        forms = dict.fromkeys([word_index(its_stem), word_index(word)])
        asked.setdefault(its_stem, AskedWord(word, tuple(forms)))
        if len(asked) == WORDS_PER_QUESTION:
            break
    return list(asked.values())


def sparse_query(asked: Iterable[AskedWord]) -> SparseEmbedding:
    """Return all forms of the words of a question, each with the weight 1."""
    return sparse({form: 1.0 for word in asked for form in word.forms})


def _counted(found: Iterable[str]) -> dict[int, int]:
    counts: dict[int, int] = {}
    for word, count in Counter(found).items():
        index = word_index(word)
        counts[index] = counts.get(index, 0) + count
        if len(counts) == WORDS_PER_TEXT:
            break
    return counts


def word_index(word: str) -> int:
    """Return a hash of 32 bits that is the same on every machine. Collisions are rare enough."""
    return zlib.crc32(word.encode("utf-8", "surrogatepass"))


def sparse(weights: Mapping[int, float]) -> SparseEmbedding:
    indices = tuple(sorted(weights))
    return SparseEmbedding(indices, tuple([float(weights[index]) for index in indices]))


class ExactScores(NamedTuple):
    """The BM25 of each document, and the best score that each form of a question's words gives to any of them."""

    bm25: list[float]
    best: dict[int, float]


def exact_scores(asked: Iterable[AskedWord], documents: Sequence[TermWeights]) -> ExactScores:
    """Score documents as a store does that has no others."""
    forms = {form for word in asked for form in word.forms}
    having = Counter([form for document in documents for form in document.keys() & forms])
    idf = {form: math.log(1 + (len(documents) - count + 0.5) / (count + 0.5)) for form, count in having.items()}
    best = dict.fromkeys(idf, 0.0)
    bm25: list[float] = []
    for document in documents:
        gave = {form: idf[form] * document[form] for form in document.keys() & idf.keys()}
        bm25.append(sum(gave.values()))
        for form, score in gave.items():
            best[form] = max(best[form], score)
    return ExactScores(bm25, best)
