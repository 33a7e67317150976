"""The rules of upkeep: when a tenant is swept, which points count, and when an erasure is confirmed."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from hivemem_contracts.errors import RevisionConflict
from hivemem_runtime.ledger.port import Append, Decision, Heads, value_of
from hivemem_vectors.pipeline.decisions.points import PointName
from hivemem_vectors.pipeline.entities import ITEM, PENDING, Item, is_event
from hivemem_vectors.upkeep.entities import REMOVAL, SWEEP, Sweep

ABANDONED: Final = 60_000_000
"""A sweep that did not get on for so many microseconds is nobody's."""


def is_due(sweep: Sweep | None, worker: str, now: int, every: int) -> bool:
    """Whether a worker may begin it, or go on with it."""
    if sweep is None:
        return True
    if sweep.running:
        return sweep.worker == worker or sweep.beat_at < now - ABANDONED
    return bool(sweep.wanted) or sweep.began_at <= now - every


def claim(
    heads: Heads, tenant: str, worker: str, now: int, *, every: int, begin_at: Callable[[Sequence[str]], str]
) -> Decision:
    """Nothing where it is not due, or another was faster. A tenant that is new has its first sweep after `every`."""
    sweep = _value(heads, tenant)
    if sweep is None:
        return [Append(SWEEP, tenant, Sweep(began_at=now))]
    if not is_due(sweep, worker, now, every):
        return []
    if sweep.running:
        return [Append(SWEEP, tenant, replace(sweep, worker=worker, beat_at=now))]
    cursor = begin_at(sweep.wanted) if sweep.wanted else None
    return [Append(SWEEP, tenant, Sweep(now, True, worker, now, cursor, lost=sweep.wanted))]


def get_on(heads: Heads, tenant: str, worker: str, cursor: str | None, now: int) -> Decision:
    """A part is done; without a cursor it was the last one, and nothing is lost any more."""
    sweep = _value(heads, tenant)
    if sweep is None or not sweep.running or sweep.worker != worker:
        raise RevisionConflict(f"tenant {tenant!r} is swept by another worker")
    if cursor is None:
        return [Append(SWEEP, tenant, replace(sweep, running=False, beat_at=now, cursor=None, lost=[]))]
    return [Append(SWEEP, tenant, replace(sweep, beat_at=now, cursor=cursor))]


def want(heads: Heads, tenants: Iterable[str], lost: Iterable[str]) -> Decision:
    """Sweep them as soon as that can be, to bring back what was in some collections."""
    names = sorted(lost)
    appends: list[Append[Sweep, Sweep]] = []
    for tenant in tenants:
        sweep = _value(heads, tenant) or Sweep(began_at=0)
        appends.append(Append(SWEEP, tenant, replace(sweep, wanted=sorted({*sweep.wanted, *names}))))
    return appends


def _value(heads: Heads, tenant: str) -> Sweep | None:
    head = heads(SWEEP, tenant)
    return value_of(head)


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


_SESSION = "session:"


def confirmed(heads: Heads, receipt: str, removed: int) -> Decision:
    """Unless more was removed since it was told. What is confirmed is kept: an item that comes late counts on."""
    head = heads(REMOVAL, receipt)
    if head is None or head.value is None or head.value.confirmed or head.value.removed != removed:
        return []
    return [Append(REMOVAL, receipt, replace(head.value, confirmed=True))]


def namespaces_of(namespace: str) -> list[str]:
    """What a receipt of a namespace may mean: where a session was deleted, its temporary memories go along."""
    session_id = namespace.removeprefix(_SESSION)
    if namespace.startswith(_SESSION) and ":" not in session_id:
        return [namespace, f"temp:{session_id}"]
    return [namespace]


def is_remnant(name: PointName, item: Item | None) -> bool:
    """Whether a point is of a memory that is erased, or of an older version of one that was written anew since. Events
    are not what a receipt means."""
    if is_event(name.place) or (item is not None and item.indexed == name.version):
        return False
    return is_done_with(name.place, item, name.version)
