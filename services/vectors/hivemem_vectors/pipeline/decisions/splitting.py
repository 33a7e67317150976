"""Splitting of long texts at the strongest boundaries that leave pieces of the right size.

The boundaries of a text have levels: headings, paragraphs, lines, sentences, words, characters. A piece ends at a
boundary of the highest level at which anything fits, and takes as many sections of that level as fit.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Final, NamedTuple

_HEADING: Final = re.compile(r"^(#{1,6}) .*$", re.MULTILINE)
_FENCED: Final = re.compile(r"^```.*?(?:^```[^\S\n]*$|\Z)", re.MULTILINE | re.DOTALL)
_ITEM: Final = re.compile(r"^(?:[-*+]|\d{1,9}[.)]) ", re.MULTILINE)
_PARAGRAPH: Final = re.compile(r"\n[^\S\n]*+\n\s*+")
_LINE: Final = re.compile(r"\n")
_SENTENCE: Final = re.compile(
    "(?<![.!?\u2026])[.!?\u2026]++[\"'\u201d\u2019)\\]]*+\\s++(?![a-z])|[\u3002\uff01\uff1f]\\s*+"
)
_SPACE: Final = re.compile(r"\s++")
_VISIBLE: Final = re.compile(r"\S")
_EDGE_OF_WORD: Final = re.compile("\\b|(?<=[\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff])")
_CHARACTER: Final = re.compile("(?<!\u200d)(?![\u0300-\u036f\u200d\ufe00-\ufe0f\U0001f3fb-\U0001f3ff])")


class Chunk(NamedTuple):
    """A piece of a text, and the position where it begins."""

    start: int
    text: str


class Splitter:
    """Splits into pieces of at most `most`, as `size` counts them, which share up to `overlap` with their neighbours.

    `reach` is the number of characters that are more than `most` in any case.
    """

    def __init__(self, size: Callable[[str], int], most: int, overlap: int, reach: int) -> None:
        self._size = size
        self._most = most
        self._overlap = overlap
        self._reach = reach

    def pieces(self, text: str, *, markdown: bool) -> Iterator[Chunk]:
        """Yield pieces without the white space around them. Together they have every visible character."""
        levels = _levels(text, markdown=markdown)
        start = end = 0
        while visible := _VISIBLE.search(text, start):
            start = visible.start()
            ahead, boundaries = self._end(text, start, levels)
            if ahead <= end:  # nothing fits beside what it shares with the piece before
                start = end
                continue
            yield Chunk(start, text[start:ahead].rstrip())
            start, end = self._shared(text, start, ahead, boundaries), ahead

    def _fits(self, text: str, most: int) -> bool:
        return self._size(text.strip()) <= most

    def _end(self, text: str, start: int, levels: Sequence[Sequence[int]]) -> tuple[int, Sequence[int]]:
        """Return where a piece ends, and all boundaries of the level at which it does."""
        limit = min(start + self._reach, len(text))
        for boundaries in chain(levels, _fine_levels(text, start, limit)):
            first = bisect_right(boundaries, start)
            last = bisect_right(boundaries, limit)
            if first < last and self._fits(text[start : boundaries[first]], self._most):
                # The last one that fits: with the text after it, a piece only grows.
                ends = boundaries[first:last]
                count = bisect_left(ends, True, key=lambda end: not self._fits(text[start:end], self._most))
                return ends[max(count, 1) - 1], boundaries
        return start + 1, ()

    def _shared(self, text: str, start: int, end: int, boundaries: Sequence[int]) -> int:
        """Return where the next piece starts: at the first boundary that leaves no more than the overlap."""
        first = bisect_right(boundaries, max(start, end - self._reach))
        starts = boundaries[first : bisect_left(boundaries, end)]
        at = bisect_left(starts, True, key=lambda place: self._fits(text[place:end], self._overlap))
        return starts[at] if at < len(starts) else end


def _levels(text: str, *, markdown: bool) -> list[list[int]]:
    """Return the boundaries of each level, the strongest first. Each level repeats the boundaries of stronger ones."""
    found: list[list[int]] = []
    known = {len(text)}
    for places in (*(_markdown_levels(text) if markdown else ()), *_plain_levels(text)):
        known.update(places)
        found.append(sorted(known))
    return found


def _plain_levels(text: str) -> Iterator[list[int]]:
    for pattern in (_PARAGRAPH, _LINE, _SENTENCE, _SPACE):
        yield [match.end() for match in pattern.finditer(text)]


def _markdown_levels(text: str) -> Iterator[list[int]]:
    """Yield where headings, paragraphs and items of lists begin, and where code begins or ends. Blocks of code have no
    boundaries inside, and no paragraph begins right after a heading."""
    code = [match.span() for match in _FENCED.finditer(text)]
    starts = [start for start, _ in code]

    def outside(match: re.Match[str]) -> bool:
        at = bisect_right(starts, match.start()) - 1
        return at < 0 or match.start() >= code[at][1]

    headings = [match for match in _HEADING.finditer(text) if outside(match)]
    for depth in range(1, 7):
        yield [match.start() for match in headings if len(match[1]) == depth]
    ends = {match.end() for match in headings}
    paragraphs = [match for match in _PARAGRAPH.finditer(text) if match.start() not in ends and outside(match)]
    yield [*(place for span in code for place in span), *(match.end() for match in paragraphs)]
    yield [match.start() for match in _ITEM.finditer(text) if outside(match)]


def _fine_levels(text: str, start: int, end: int) -> Iterator[list[int]]:
    """Yield the edges of words, then the characters, of one part of a text."""
    for pattern in (_EDGE_OF_WORD, _CHARACTER):
        yield [match.start() for match in pattern.finditer(text, start + 1, end)]
