"""The rules of upkeep: when a tenant is swept, which points count, and when an erasure is confirmed."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from hivemem_contracts.errors import RevisionConflict
from hivemem_runtime.ledger.port import Append, Decision, Heads, value_of
from hivemem_vectors.pipeline.decisions.points import PointName
from hivemem_vectors.pipeline.entities import ITEM, PENDING, Item, is_event, session_named
from hivemem_vectors.upkeep.entities import REMOVAL, SWEEP, Removal, Sweep

ABANDONED: Final = 60_000_000
"""A sweep without progress for this many microseconds is free for another worker."""


def is_due(sweep: Sweep | None, worker: str, now: int, every: int) -> bool:
    """Return whether a worker may begin the sweep, or continue it."""
    if sweep is None:
        return True
    if sweep.running:
        return sweep.worker == worker or sweep.beat_at < now - ABANDONED
    return bool(sweep.wanted) or sweep.outdated or sweep.began_at <= now - every


def claim(
    heads: Heads, tenant: str, worker: str, now: int, *, every: int, begin_at: Callable[[Sequence[str]], str]
) -> Decision:
    """Claim a sweep that is due, if no other worker was faster. A new tenant has its first sweep after `every`."""
    sweep = value_of(heads(SWEEP, tenant))
    if sweep is None:
        return [Append(SWEEP, tenant, Sweep(began_at=now))]
    if not is_due(sweep, worker, now, every):
        return []
    if sweep.running:
        return [Append(SWEEP, tenant, replace(sweep, worker=worker, beat_at=now))]
    cursor = begin_at([] if sweep.outdated else sweep.wanted) if sweep.wanted or sweep.outdated else None
    return [Append(SWEEP, tenant, Sweep(now, True, worker, now, cursor, lost=sweep.wanted))]


def get_on(heads: Heads, tenant: str, worker: str, cursor: str | None, now: int) -> Decision:
    """Note that a part is done. Without a cursor it was the last one, and nothing is lost any more."""
    sweep = value_of(heads(SWEEP, tenant))
    if sweep is None or not sweep.running or sweep.worker != worker:
        raise RevisionConflict(f"tenant {tenant!r} is swept by another worker")
    if cursor is None:
        return [Append(SWEEP, tenant, replace(sweep, running=False, beat_at=now, cursor=None, lost=[]))]
    return [Append(SWEEP, tenant, replace(sweep, beat_at=now, cursor=cursor))]


def want(heads: Heads, tenants: Iterable[str], lost: Iterable[str]) -> Decision:
    """Have tenants swept soon, to restore lost collections."""
    names = sorted(lost)
    appends: list[Append[Sweep, Sweep]] = []
    for tenant in tenants:
        sweep = value_of(heads(SWEEP, tenant)) or Sweep(began_at=0)
        appends.append(Append(SWEEP, tenant, replace(sweep, wanted=sorted({*sweep.wanted, *names}))))
    return appends


def want_words(heads: Heads, tenant: str) -> Decision:
    """Have a tenant swept soon, because points have words of an earlier scheme."""
    sweep = value_of(heads(SWEEP, tenant)) or Sweep(began_at=0)
    return [] if sweep.outdated else [Append(SWEEP, tenant, replace(sweep, outdated=True))]


class Position(NamedTuple):
    """The position of a sweep: its phase, the part of it, a mark, and the first id."""

    phase: str
    part: str = ""
    mark: str = ""
    low: str = ""


LOST: Final = "its points are lost"


@dataclass(slots=True)
class Tally:
    """The counts of a sweep: items compared, items whose points are missing, and points or items left over that should
    be gone."""

    checked: int = 0
    missing: int = 0
    left_over: int = 0

    def add(self, other: "Tally") -> None:
        self.checked += other.checked
        self.missing += other.missing
        self.left_over += other.left_over


def counts(items: Mapping[str, Item], name: PointName) -> bool:
    """Return whether recall finds this point."""
    item = items.get(name.place)
    return item is not None and not item.gone and item.indexed == name.version and name.chunk < item.chunks


def is_done_with(items: Mapping[str, Item], name: PointName) -> bool:
    """Return whether a point that does not count is useless for good. Others may be on their way, because the ledger
    hears of a version only after its points are stored."""
    item = items.get(name.place)
    if item is None:
        return False
    # An event never changes: one that is gone may come back as the same version.
    return name.version < item.heard or (item.gone and name.version == item.heard and not is_event(name.place))


def lose(heads: Heads, lost: Iterable[tuple[str, int]], now: int) -> Decision:
    """Mark items whose points are lost as waiting, so that the retry indexes them again."""
    appends: list[Append[Item, Item]] = []
    for place, version in lost:
        item = value_of(heads(ITEM, place))
        if item is None or item.gone or item.indexed != version:
            continue
        waits = replace(item, state=PENDING, indexed=None, chunks=0, error=LOST, retry_at=now, announced=None)
        appends.append(Append(ITEM, place, waits))
    return appends


def awaited(heads: Heads, receipt: str, now: int) -> Decision:
    """Note an erasure that awaits a confirmation, unless it is known from the items that it removed."""
    return [] if value_of(heads(REMOVAL, receipt)) is not None else [Append(REMOVAL, receipt, Removal(0, now))]


def confirmed(heads: Heads, receipt: str, removed: int) -> Decision:
    """Confirm an erasure, unless more was removed since. A confirmed removal is kept, so that a late item counts on."""
    removal = value_of(heads(REMOVAL, receipt))
    if removal is None or removal.confirmed or removal.removed != removed:
        return []
    return [Append(REMOVAL, receipt, replace(removal, confirmed=True))]


def namespaces_of(namespace: str) -> list[str]:
    """Return the namespaces of an erasure: that of a session includes its temporary memories."""
    session_id = session_named(namespace)
    return [namespace] if session_id is None else [namespace, f"temp:{session_id}"]


def is_remnant(items: Mapping[str, Item], name: PointName) -> bool:
    """Return whether a point belongs to an erased memory, or an older version of one that was written anew. A receipt
    does not cover events."""
    item = items.get(name.place)
    is_indexed = item is not None and item.indexed == name.version
    return not is_event(name.place) and not is_indexed and is_done_with(items, name)
