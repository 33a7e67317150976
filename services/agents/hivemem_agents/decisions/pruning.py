"""The rules of pruning: which records go, and why."""

import math
from collections.abc import Sequence
from typing import Final, Literal, NamedTuple

from hivemem_agents.entities.records import RecordEntry
from hivemem_contracts.agents.requests import PruneRecords

DAY: Final = 86_400_000_000
USUAL_IMPORTANCE: Final = 0.5
Why = Literal["older_than_days", "min_relevance", "max_entries"]


class PrunedEntry(NamedTuple):
    """A record that goes."""

    entry: RecordEntry
    relevance: float
    why: Why


def relevance(entry: RecordEntry, half_life_days: float, now: int) -> float:
    importance = USUAL_IMPORTANCE if entry.importance is None else entry.importance
    return importance * math.exp2(-max(now - entry.at, 0) / DAY / half_life_days)


def choose(entries: Sequence[RecordEntry], body: PruneRecords, now: int) -> list[PrunedEntry]:
    """Return the records that go, the oldest first. `max_entries` counts what the other rules leave."""
    gone: list[PrunedEntry] = []
    kept: list[tuple[float, int, str, RecordEntry]] = []
    for entry in entries:
        worth = relevance(entry, body.half_life_days, now)
        if body.older_than_days is not None and now - entry.at > body.older_than_days * DAY:
            gone.append(PrunedEntry(entry, worth, "older_than_days"))
        elif body.min_relevance is not None and worth < body.min_relevance:
            gone.append(PrunedEntry(entry, worth, "min_relevance"))
        else:
            kept.append((worth, entry.at, entry.key, entry))
    if body.max_entries is not None and len(kept) > body.max_entries:
        kept.sort(reverse=True)
        gone += [PrunedEntry(entry, worth, "max_entries") for worth, _, _, entry in kept[body.max_entries :]]
    return sorted(gone, key=lambda one: (one.entry.at, one.entry.key))
