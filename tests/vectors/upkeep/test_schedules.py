"""When a tenant is swept and by which worker, and when an erasure is confirmed."""

import pytest

from hivemem_contracts.errors import RevisionConflict
from hivemem_runtime.ledger.port import Append
from hivemem_testing.heads import DictHeads
from hivemem_vectors.upkeep.decisions import ABANDONED, claim, confirmed, get_on, is_due, namespaces_of, want
from hivemem_vectors.upkeep.entities import REMOVAL, SWEEP, Removal, Sweep

from .cabinet import TENANT

EVERY = 1_000


def claimed(heads: DictHeads, worker: str, now: int) -> Sweep | None:
    """Return the sweep that a worker claims, or None."""
    decision = claim(heads, TENANT, worker, now, every=EVERY, begin_at=lambda lost: f"for {lost}")
    heads.apply(decision)
    sweep = decision[0].record if decision else None
    return sweep if sweep is not None and sweep.running else None


def test_a_new_tenant_is_swept_once_its_time_has_come() -> None:
    heads = DictHeads()
    assert claimed(heads, "one", 100) is None
    assert claimed(heads, "one", 100 + EVERY - 1) is None
    assert claimed(heads, "one", 100 + EVERY) == Sweep(100 + EVERY, True, "one", 100 + EVERY)


def test_one_worker_at_a_time_sweeps_a_tenant() -> None:
    heads = DictHeads()
    heads.apply([Append(SWEEP, TENANT, Sweep(0))])
    assert claimed(heads, "one", EVERY) is not None
    assert claimed(heads, "two", EVERY + 1) is None
    heads.apply(get_on(heads, TENANT, "one", "cursor", EVERY + 2))
    assert claimed(heads, "one", EVERY + 3) == Sweep(EVERY, True, "one", EVERY + 3, "cursor")
    with pytest.raises(RevisionConflict):
        get_on(heads, TENANT, "two", None, EVERY + 4)
    heads.apply(get_on(heads, TENANT, "one", None, EVERY + 5))
    assert claimed(heads, "two", EVERY + 6) is None
    with pytest.raises(RevisionConflict):
        get_on(heads, TENANT, "one", None, EVERY + 7)
    assert claimed(heads, "two", 2 * EVERY) is not None


def test_another_worker_goes_on_with_a_sweep_that_was_left() -> None:
    heads = DictHeads()
    heads.apply([Append(SWEEP, TENANT, Sweep(0, True, "one", 50, "cursor", lost=["memories"]))])
    assert claimed(heads, "two", 50 + ABANDONED) is None
    now = 51 + ABANDONED
    assert claimed(heads, "two", now) == Sweep(0, True, "two", now, "cursor", lost=["memories"])
    with pytest.raises(RevisionConflict):
        get_on(heads, TENANT, "one", "further", now)


def test_what_is_lost_is_brought_back_at_once() -> None:
    heads = DictHeads()
    heads.apply(want(heads, [TENANT], ["vectors-3"]))
    heads.apply(want(heads, [TENANT], ["memories", "vectors-3"]))
    lost = ["memories", "vectors-3"]
    assert claimed(heads, "one", 5) == Sweep(5, True, "one", 5, f"for {lost}", lost=lost)
    heads.apply(want(heads, [TENANT], ["vectors-4"]))
    head = heads(SWEEP, TENANT)
    assert head is not None
    assert not is_due(head.value, "two", 6, EVERY)
    heads.apply(get_on(heads, TENANT, "one", None, 7))
    assert claimed(heads, "two", 8) == Sweep(8, True, "two", 8, "for ['vectors-4']", lost=["vectors-4"])
    heads.apply(get_on(heads, TENANT, "two", None, 9))
    assert claimed(heads, "two", 10) is None
    head = heads(SWEEP, TENANT)
    assert head is not None
    assert head.value == Sweep(8, False, "two", 9)


def test_a_session_s_receipt_means_its_temporary_memories_too() -> None:
    assert namespaces_of("session:s1") == ["session:s1", "temp:s1"]
    assert namespaces_of("session:s1:deep") == ["session:s1:deep"]
    assert namespaces_of("user:s1") == ["user:s1"]


def test_a_count_that_has_grown_meanwhile_is_not_confirmed() -> None:
    heads = DictHeads()
    assert confirmed(heads, "r1", 1) == []
    heads.apply([Append(REMOVAL, "r1", Removal(2, 5))])
    assert confirmed(heads, "r1", 1) == []
    heads.apply(confirmed(heads, "r1", 2))
    assert confirmed(heads, "r1", 2) == []
