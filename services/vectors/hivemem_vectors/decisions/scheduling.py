"""When a tenant is swept, and by whom."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Final

from hivemem_contracts.errors import RevisionConflict
from hivemem_runtime.ledger.port import Append, Decision, Heads, value_of
from hivemem_vectors.entities.sweeps import SWEEP, Sweep

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
