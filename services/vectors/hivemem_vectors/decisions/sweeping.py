"""What a sweep makes of what it finds: which points count, which ones nobody can want any more, what is lost."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from hivemem_runtime.ledger.port import Append, Decision, Heads, value_of
from hivemem_vectors.entities.items import ITEM, PENDING, Item, is_event

LOST: Final = "its points are lost"


@dataclass(slots=True)
class Tally:
    """What was compared; what of it was not found as it should be; and what was found and should not be: points, and
    memories that are gone."""

    checked: int = 0
    missing: int = 0
    left_over: int = 0

    def add(self, other: "Tally") -> None:
        self.checked += other.checked
        self.missing += other.missing
        self.left_over += other.left_over


def counts(item: Item | None, version: int, chunk: int) -> bool:
    """Whether a point is one of those that are found."""
    return item is not None and not item.gone and item.indexed == version and chunk < item.chunks


def is_done_with(place: str, item: Item | None, version: int) -> bool:
    """Whether nobody can come to want a point that does not count. The others may be on their way: the ledger hears of
    a version only once its points are there."""
    if item is None:
        return False
    if version < item.heard:
        return True
    # An event never changes: one that is gone may come back as the same version.
    return item.gone and version == item.heard and not is_event(place)


def lose(heads: Heads, lost: Iterable[tuple[str, int]], now: int) -> Decision:
    """Of these versions nothing is found any more; whoever tries again what waits has them from here on."""
    appends: list[Append[Item, Item]] = []
    for place, version in lost:
        head = heads(ITEM, place)
        item = value_of(head)
        if item is None or item.gone or item.indexed != version:
            continue
        waits = replace(item, state=PENDING, indexed=None, chunks=0, error=LOST, retry_at=now, announced=None)
        appends.append(Append(ITEM, place, waits))
    return appends
