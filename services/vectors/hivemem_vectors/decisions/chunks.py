"""Pieces of a text that fit an embedding model, cut where the text itself has its joints."""

import re
from collections.abc import Callable
from typing import Final, NamedTuple

from semantic_text_splitter import MarkdownSplitter, TextSplitter

CHUNK_TOKENS: Final = 200
"""Well under what the model reads at once: of a longer piece the meaning is blurred."""

OVERLAP_TOKENS: Final = 20
CHUNKS_PER_TEXT: Final = 2_000
"""More than the longest text of one memory gives in any language written with letters; what is past it is left out."""

_CHARACTERS_PER_TOKEN: Final = 8
"""Tokenizers take a long run of letters for one unknown word: it counts as at least one token in so many characters."""

_MARKDOWN: Final = re.compile(r"^(?:#{1,6} \S|```|[-*+] \S.*\n[-*+] \S|\|.+\|\s*$|\d+\. \S.*\n\d+\. \S)", re.MULTILINE)

CountTokens = Callable[[str], int]


class Chunk(NamedTuple):
    """A piece of a text and the character at which it begins there."""

    start: int
    text: str


class Chunker:
    """Cuts texts into chunks of at most `tokens`, by the count of the model they are for. The same text always gives
    the same chunks, and every character that is no white space is in one of them, up to `CHUNKS_PER_TEXT`."""

    def __init__(self, count: CountTokens, *, tokens: int = CHUNK_TOKENS, overlap: int = OVERLAP_TOKENS) -> None:
        def size(text: str) -> int:
            least = -(-len(text) // _CHARACTERS_PER_TOKEN)
            # Counting a text of megabytes takes long, holds up every other thread, and would not change the answer.
            return least if least > tokens else max(count(text), least)

        self._size = size
        self._tokens = tokens
        self._plain = TextSplitter.from_callback(size, tokens, overlap)
        self._markdown = MarkdownSplitter.from_callback(size, tokens, overlap)

    def chunks(self, text: str) -> list[Chunk]:
        """In order; none for a text without a visible character."""
        stripped = text.strip()
        if not stripped:
            return []
        # No token is shorter than a character: most memories need no counting at all.
        if len(stripped) <= self._tokens or self._size(stripped) <= self._tokens:
            return [Chunk(text.index(stripped), stripped)]
        splitter = self._markdown if _MARKDOWN.search(text) else self._plain
        return [Chunk(start, piece) for start, piece in splitter.chunk_indices(text)][:CHUNKS_PER_TEXT]
