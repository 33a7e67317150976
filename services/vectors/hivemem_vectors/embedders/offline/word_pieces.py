"""The tokenizer of BERT without case: text is cleaned, lower-cased and split into words, and those into pieces.

Each character becomes a text by itself: nothing, a space, a sign between spaces, or its letters without case and
accents. So cleaning is one `translate`, and the words are what stands between spaces.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Final, NamedTuple
from unicodedata import normalize

import numpy as np
from numpy.typing import NDArray

VOCABULARY: Final = Path(__file__).parent / "vocab.txt"
VOCABULARY_SHA256: Final = "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3"

TOKENS_PER_TEXT: Final = 256
"""The most pieces of a text that the model reads, with the marks at both ends."""

_CHARACTERS: Final = Path(__file__).parent / "characters.txt"
"""Three lines of ranges: dropped characters, signs that are words by themselves, and white space. They follow
Unicode 8, as the model does; Python's own tables change with its version."""

_UNKNOWN, _FIRST, _LAST, _PADDING = "[UNK]", "[CLS]", "[SEP]", "[PAD]"
_LONGEST_WORD: Final = 100
"""The most characters of a word that is split into pieces. A longer one is unknown."""

_KNOWN_WORDS: Final = 50_000
_KNOWN_CHARACTERS: Final = 20_000
"""The most that are remembered. The memory starts anew after that."""


class TokenBatch(NamedTuple):
    """A batch of tokenized texts, padded to the longest: ids of pieces, and a mask of the pieces that are text."""

    ids: NDArray[np.int64]
    mask: NDArray[np.int64]


class WordPieces:
    """Splits texts into pieces of a vocabulary. It can be used from many threads."""

    def __init__(self, vocabulary: Path = VOCABULARY) -> None:
        pieces = {piece: at for at, piece in enumerate(vocabulary.read_text(encoding="utf-8").splitlines())}
        self._first, self._last, self._padding = pieces[_FIRST], pieces[_LAST], pieces[_PADDING]
        self._characters = _Characters()
        self._words = _Words(pieces)

    def count(self, text: str) -> int:
        """Return the number of pieces in the whole text, without the marks at its ends."""
        words = self._words
        return sum([len(words[word]) for word in text.translate(self._characters).split()])

    def batch(self, texts: Sequence[str]) -> TokenBatch:
        rows = [[self._first, *islice(self._pieces(text), TOKENS_PER_TEXT - 2), self._last] for text in texts]
        longest = max(map(len, rows))
        return TokenBatch(
            np.array([row + [self._padding] * (longest - len(row)) for row in rows], np.int64),
            np.array([[1] * len(row) + [0] * (longest - len(row)) for row in rows], np.int64),
        )

    def _pieces(self, text: str) -> Iterator[int]:
        words = self._words
        for word in text.translate(self._characters).split():
            yield from words[word]


class _Characters(dict[int, str]):
    """What each character becomes, found out once it is needed."""

    def __init__(self) -> None:
        super().__init__()
        lines = _CHARACTERS.read_text(encoding="ascii").splitlines()
        self._dropped, self._alone, self._space = (_Ranges(line) for line in lines)

    def __missing__(self, code: int) -> str:
        if len(self) >= _KNOWN_CHARACTERS:
            self.clear()
        self[code] = found = self._becomes(code)
        return found

    def _becomes(self, code: int) -> str:
        if code in self._dropped:
            return ""
        if code in self._space:
            return " "
        parts = [each.lower() for each in normalize("NFD", chr(code)) if ord(each) not in self._dropped]
        return "".join(f" {part} " if ord(part[0]) in self._alone else part for part in parts)


class _Ranges:
    """A set of characters, written as ranges of hexadecimal numbers."""

    def __init__(self, line: str) -> None:
        ranges = [each.partition("-") for each in line.split()]
        self._starts = [int(start, 16) for start, _, _ in ranges]
        self._ends = [int(end or start, 16) for start, _, end in ranges]

    def __contains__(self, code: int) -> bool:
        at = bisect_right(self._starts, code) - 1
        return at >= 0 and code <= self._ends[at]


class _Words(dict[str, tuple[int, ...]]):
    """The pieces of each word: the longest that it begins with, then the longest of the rest, and so on."""

    def __init__(self, pieces: dict[str, int]) -> None:
        super().__init__()
        self._pieces = pieces
        self._unknown = (pieces[_UNKNOWN],)
        self._longest = max(map(len, pieces))

    def __missing__(self, word: str) -> tuple[int, ...]:
        if len(word) > _LONGEST_WORD:
            return self._unknown
        if len(self) >= _KNOWN_WORDS:
            self.clear()
        self[word] = found = self._split(word)
        return found

    def _split(self, word: str) -> tuple[int, ...]:
        found: list[int] = []
        start = 0
        while start < len(word):
            mark = "##" if start else ""
            for end in range(min(len(word), start + self._longest), start, -1):
                piece = self._pieces.get(mark + word[start:end])
                if piece is not None:
                    found.append(piece)
                    start = end
                    break
            else:
                return self._unknown
        return tuple(found)
