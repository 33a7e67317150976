"""Suggests what a misspelt name was meant to be."""

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Final

_COMPARED_CHARACTERS: Final = 64
"""Comparing long names takes time."""


def nearest_name(name: str, known: Iterable[str], *, similarity: float = 0.6) -> str | None:
    """Return the known name that is most similar, or None if none is similar enough; 0 accepts any.

    `prefix` is near `namespace_prefix`, if no other known name has this part.
    """
    names = list(known)
    if found := get_close_matches(name[:_COMPARED_CHARACTERS], names, n=1, cutoff=similarity):
        return found[0]
    having = [other for other in names if name in other.split("_")]
    return having[0] if len(having) == 1 else None


def suggestion(name: str, known: Iterable[str]) -> str:
    """Return a suggestion for the end of a sentence, or nothing if no known name is near."""
    found = nearest_name(name, known)
    return f" (did you mean {found!r}?)" if found else ""
