"""Long lists in parts: slices of bounded length, batches of bounded size, and groups by a key."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

KeyT = TypeVar("KeyT")
ItemT = TypeVar("ItemT")


def slices(items: Sequence[ItemT], size: int) -> Iterator[Sequence[ItemT]]:
    """Yield the items in order, at most `size` at a time."""
    for start in range(0, len(items), size):
        yield items[start : start + size]


def batches(
    items: Iterable[ItemT], size_of: Callable[[ItemT], int], *, most: int, most_items: int
) -> Iterator[list[ItemT]]:
    """Yield the items in order, at most `most_items` at a time, whose sizes add up to at most `most`. An item that is
    larger than that is alone."""
    batch: list[ItemT] = []
    total = 0
    for item in items:
        size = size_of(item)
        if batch and (len(batch) == most_items or total + size > most):
            yield batch
            batch, total = [], 0
        batch.append(item)
        total += size
    if batch:
        yield batch


def grouped(pairs: Iterable[tuple[KeyT, ItemT]]) -> dict[KeyT, list[ItemT]]:
    """Return the items of each key; keys and items keep their order."""
    groups: dict[KeyT, list[ItemT]] = {}
    for key, item in pairs:
        groups.setdefault(key, []).append(item)
    return groups
