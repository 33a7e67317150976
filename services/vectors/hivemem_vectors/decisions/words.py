"""The words of a text as the keyword side sees them."""

import re
import unicodedata
from collections.abc import Iterator
from typing import Final

WORD_CHARACTERS: Final = 64
"""What is longer is a blob, and is cut: nobody asks for it by its end."""

_COMPOUND: Final = re.compile(r"\w+(?:[-.:/@+#']\w+)*")
_PARTS: Final = re.compile(r"[^\W_]+")
_WITHOUT_SPACES: Final = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\u0e00-\u0e7f]+")
"""Scripts that put no space between words: each character and each pair of neighbours is a word."""


def words(text: str) -> list[str]:
    """Lower-cased and without accents, in order. A compound such as `ERR-4312` or `max_age` is a word, and so is each
    of its parts: it is found by either. Words keep their endings: cutting them off found nothing more."""
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
    """Without case, accents and other forms of the same character."""
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
