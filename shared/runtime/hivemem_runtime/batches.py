"""Long lists in parts: slices of bounded length, and groups by a key."""

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

KeyT = TypeVar("KeyT")
ItemT = TypeVar("ItemT")


def slices(items: Sequence[ItemT], size: int) -> Iterator[Sequence[ItemT]]:
    """Yield the items in order, at most `size` at a time."""
    for start in range(0, len(items), size):
        yield items[start : start + size]


def grouped(pairs: Iterable[tuple[KeyT, ItemT]]) -> dict[KeyT, list[ItemT]]:
    """Return the items of each key; keys and items keep their order."""
    groups: dict[KeyT, list[ItemT]] = {}
    for key, item in pairs:
        groups.setdefault(key, []).append(item)
    return groups
