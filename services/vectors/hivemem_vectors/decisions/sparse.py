"""The keyword side: a text as a sparse vector of its words, weighed so that a dot product is BM25.

A document carries the weight of each word within it; how rare a word is in the whole collection, its idf, changes with
every write and is put in at query time, by the store or by `Idf`.
"""

import math
import zlib
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from hivemem_vectors.decisions.words import words

WORDS_PER_TEXT: Final = 4_096
"""The most distinct words of one sparse vector; further ones of a text are left out."""

_SATURATION: Final = 1.2
"""BM25's k1: how soon a repeated word stops counting."""

_LENGTH_SHARE: Final = 0.75
"""BM25's b: how much a long text is held against it."""

_TYPICAL_WORDS: Final = 32.0
"""The length that counts as usual. A constant: the mean of a collection changes, and what is written stays."""


class SparseEmbedding(NamedTuple):
    """Words by the hash of each, in rising order, and what each weighs."""

    indices: tuple[int, ...]
    values: tuple[float, ...]


def document(text: str) -> SparseEmbedding:
    """What is kept of a text: the weight of each word within it."""
    found = words(text)
    usual = 1 - _LENGTH_SHARE + _LENGTH_SHARE * len(found) / _TYPICAL_WORDS
    weights = {
        index: count * (_SATURATION + 1) / (count + _SATURATION * usual) for index, count in _counted(found).items()
    }
    return _embedding(weights)


def query(text: str) -> SparseEmbedding:
    """What is asked: each word as often as it stands there."""
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
    """Of 32 bits, the same on every machine: two words of a large vocabulary share one about never."""
    return zlib.crc32(word.encode("utf-8", "surrogatepass"))


def _embedding(weights: Mapping[int, float]) -> SparseEmbedding:
    indices = tuple(sorted(weights))
    return SparseEmbedding(indices, tuple([float(weights[index]) for index in indices]))


class Idf:
    """How rare each word is among some documents."""

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
    """BM25 of each document, in order; 0 where no word is shared."""
    weights = {index: value * idf.of(index) for index, value in zip(question.indices, question.values, strict=True)}
    return [
        sum([weights[i] * value for i, value in zip(document.indices, document.values, strict=True) if i in weights])
        for document in documents
    ]
