"""Byte pair encoding over a published vocabulary: the exact token counts of OpenAI's models, without a network."""

import heapq
import zlib
from functools import cache
from importlib import resources
from typing import Final

from hivemem_runtime.tokens.splitting import splitter

SLICE_BYTES: Final = 4_096
"""Longer pieces, which are runs of letters or marks without a break, are counted in slices. That bounds the memory, and
counts at most about a token per slice differently."""

_CACHED_PIECES: Final = 65_536
_CACHED_CHARACTERS: Final = 64

Ranks = dict[bytes, int]


@cache
def encoding(name: str) -> "BytePairs":
    """Return the encoding `cl100k` or `o200k`; the first call reads its vocabulary: about 0.1 s and 30 MB."""
    return BytePairs(name, vocabulary(name))


def vocabulary(name: str) -> Ranks:
    """Return the rank of each token. The file holds how many they are, their lengths, and the tokens by rank."""
    packed = resources.files("hivemem_runtime.tokens").joinpath("vocabularies", f"{name}.z").read_bytes()
    raw = zlib.decompress(packed)
    count = int.from_bytes(raw[:4], "big")
    ranks: Ranks = {}
    start = 4 + count
    for rank, length in enumerate(raw[4:start]):
        ranks[raw[start : start + length]] = rank
        start += length
    return ranks


class BytePairs(dict[str, int]):
    """Counts the tokens of texts. It is itself the cache of the counts of short pieces: most words are common ones."""

    def __init__(self, name: str, ranks: Ranks) -> None:
        super().__init__()
        self._ranks = ranks
        self._split = splitter(name)

    def count(self, text: str) -> int:
        """Return how many tokens a text has; names of special tokens count as the plain text that they are."""
        return sum(map(self.__getitem__, self._split(text)))

    def __missing__(self, piece: str) -> int:
        count = self._count_piece(piece.encode("utf-8", "replace"))
        if len(piece) <= _CACHED_CHARACTERS:
            if len(self) >= _CACHED_PIECES:
                self.clear()
            self[piece] = count
        return count

    def _count_piece(self, piece: bytes) -> int:
        if piece in self._ranks:
            return 1
        if len(piece) <= SLICE_BYTES:
            return merged_length(piece, self._ranks)
        counts: dict[bytes, int] = {}
        slices = [piece[start : start + SLICE_BYTES] for start in range(0, len(piece), SLICE_BYTES)]
        for part in slices:
            if part not in counts:
                counts[part] = self._count_piece(part)
        return sum(counts[part] for part in slices)


def merged_length(piece: bytes, ranks: Ranks) -> int:
    """Return how many tokens are left after all merges, of the pair of lowest rank first and the leftmost of equals."""
    size = len(piece)
    ends = list(range(1, size + 1))
    """The end of the token at a place; 0 for a place inside of a token."""
    starts = list(range(-1, size))
    """The start of the token before the token at a place."""
    heap = [(rank, at, at + 2) for at in range(size - 1) if (rank := ranks.get(piece[at : at + 2])) is not None]
    heapq.heapify(heap)
    left = size
    while heap:
        _, at, end = heapq.heappop(heap)
        middle = ends[at]
        if middle == 0 or middle >= end or middle >= size or ends[middle] != end:
            continue  # one of the two has been merged since
        ends[at], ends[middle] = end, 0
        left -= 1
        if end < size:
            starts[end] = at
            if (rank := ranks.get(piece[at : ends[end]])) is not None:
                heapq.heappush(heap, (rank, at, ends[end]))
        before = starts[at]
        if before >= 0 and (rank := ranks.get(piece[before:end])) is not None:
            heapq.heappush(heap, (rank, before, end))
    return left
