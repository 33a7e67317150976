"""The words of a text as the keyword side sees them."""

import math
import re
import unicodedata
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

WORD_CHARACTERS: Final = 64
"""Longer words are cut: nobody searches for the end of a blob."""

_COMPOUND: Final = re.compile(r"\w+(?:[-.:/@+#']\w+)*")
_PARTS: Final = re.compile(r"[^\W_]+")
_WITHOUT_SPACES: Final = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\u0e00-\u0e7f]+")
"""Scripts without spaces between words: each character, and each pair of neighbours, is a word."""


def words(text: str) -> list[str]:
    """Return the words of a text in order, lower-cased and without accents. A compound such as `ERR-4312` or `max_age`
    is a word, and so is each of its parts. Words keep their endings, because cutting them off found nothing more."""
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


WORDS_PER_TEXT: Final = 4_096
"""The most distinct words of one sparse vector; a longer text loses the rest."""

_SATURATION: Final = 1.2
"""BM25's k1: how soon a repeated word stops counting."""

_LENGTH_SHARE: Final = 0.75
"""BM25's b: how much long texts are penalized."""

_TYPICAL_WORDS: Final = 32.0
"""The length of a typical text. It is a constant, because the mean of a collection changes while weights stay."""


class SparseEmbedding(NamedTuple):
    """The hashes of words in rising order, and their weights."""

    indices: tuple[int, ...]
    values: tuple[float, ...]


NO_WORDS: Final = SparseEmbedding((), ())


def document(text: str) -> SparseEmbedding:
    """Return the weight of each word within a text."""
    found = words(text)
    usual = 1 - _LENGTH_SHARE + _LENGTH_SHARE * len(found) / _TYPICAL_WORDS
    weights = {
        index: count * (_SATURATION + 1) / (count + _SATURATION * usual) for index, count in _counted(found).items()
    }
    return _embedding(weights)


def query(text: str) -> SparseEmbedding:
    """Return how often each word occurs in a query."""
    return _embedding(_counted(words(text)))


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


def _embedding(weights: Mapping[int, float]) -> SparseEmbedding:
    indices = tuple(sorted(weights))
    return SparseEmbedding(indices, tuple([float(weights[index]) for index in indices]))


class Idf:
    """The inverse document frequency of words in some documents."""

    def __init__(self, documents: Iterable[SparseEmbedding]) -> None:
        self.documents = 0
        self._having: Counter[int] = Counter()
        for document in documents:
            self.documents += 1
            self._having.update(document.indices)

    def of(self, index: int) -> float:
        having = self._having[index]
        return math.log(1 + (self.documents - having + 0.5) / (having + 0.5))


def keyword_scores(question: SparseEmbedding, documents: Iterable[SparseEmbedding], idf: Idf) -> list[float]:
    """Return the BM25 score of each document, in order; 0 if no word is shared."""
    weights = {index: value * idf.of(index) for index, value in zip(question.indices, question.values, strict=True)}
    return [
        sum([weights[i] * value for i, value in zip(document.indices, document.values, strict=True) if i in weights])
        for document in documents
    ]
