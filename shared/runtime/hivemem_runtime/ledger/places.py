"""The place of a key of a namespace: an id for the ledger, made so that what is below a prefix stands together.

Namespaces and keys hold no control characters. With one between the segments and a smaller one before the key, the ids
of a namespace come first, those below it next, and `user:alicex` after all of `user:alice`: a prefix is one range.
"""

from functools import lru_cache
from typing import Final

_SEGMENT: Final = "\x02"
_KEY: Final = "\x01"
_AFTER: Final = "\x03"


def place_of(namespace: str, key: str | None = None) -> str:
    """Without a key: the place of the namespace itself."""
    return _head_of(namespace) + (key or "")


@lru_cache(maxsize=4096)
def _head_of(namespace: str) -> str:
    return namespace.replace(":", _SEGMENT) + _KEY


def namespace_and_key(place: str) -> tuple[str, str | None]:
    namespace, _, key = place.partition(_KEY)
    return namespace.replace(_SEGMENT, ":"), key or None


def below(prefix: str) -> tuple[str, str]:
    """The range of all places at and below a prefix: the first one, and the end, which is not in it."""
    start = prefix.replace(":", _SEGMENT)
    return start + _KEY, start + _AFTER


def within(namespace: str) -> tuple[str, str]:
    """The range of the places of exactly this namespace."""
    start = namespace.replace(":", _SEGMENT)
    return start + _KEY, start + _SEGMENT


def moved(place: str, prefix: str, into: str) -> str:
    """The place that something below one prefix has below another."""
    return into.replace(":", _SEGMENT) + place[len(prefix) :]


def namespaces_above(namespace: str) -> list[str]:
    """Itself and those that it is below, the widest first."""
    segments = namespace.split(":")
    return [":".join(segments[:count]) for count in range(2, len(segments) + 1)]


def scope_of(namespace: str) -> str:
    """Its first two segments."""
    return ":".join(namespace.split(":", 2)[:2])
