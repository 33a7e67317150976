"""Places: ids for namespaces and keys, ordered so that everything below a prefix is one range.

Namespaces and keys contain no control characters. One separates the segments, and a smaller one precedes the key, so
the ids sort as: the namespace itself, the namespaces below it, then its neighbours (`user:alicex` after `user:alice`).
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
    """Return the namespace and its ancestors, the widest first."""
    segments = namespace.split(":")
    return [":".join(segments[:count]) for count in range(2, len(segments) + 1)]


def scope_of(namespace: str) -> str:
    """Its first two segments."""
    return ":".join(namespace.split(":", 2)[:2])
