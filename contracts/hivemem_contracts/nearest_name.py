"""Suggests what a misspelt name was meant to be."""

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Final

_COMPARED_CHARACTERS: Final = 64
"""Comparing long names takes time."""


def nearest_name(name: str, known: Iterable[str], *, similarity: float = 0.6) -> str | None:
    """Return the known name that is most similar, or None if none is similar enough; 0 accepts any."""
    return next(iter(get_close_matches(name[:_COMPARED_CHARACTERS], list(known), n=1, cutoff=similarity)), None)


def suggestion(name: str, known: Iterable[str]) -> str:
    """Return a suggestion for the end of a sentence, or nothing if no known name is near."""
    found = nearest_name(name, known)
    return f" (did you mean {found!r}?)" if found else ""
