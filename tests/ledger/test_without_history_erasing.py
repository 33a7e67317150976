"""Erasing a key without history leaves a fence and spent requests, and a new life may begin at once."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from hivemem_contracts.errors import NotFound, RevisionConflict
from hivemem_runtime.ledger.entity import AnyEntity
from hivemem_runtime.ledger.port import Append, Decision, Head, Heads, Ledger, RequestId

from .backends import Backend, within
from .clock import ManualClock
from .entities import COUNTER, GAUGE, CounterSet, Gauge
from .waiting import announce_all
from .writes import TENANT, Told, count, count_and_gauge, gauge, write


async def test_erased_key_leaves_a_fence_and_may_be_written_at_once(
    backend: Backend, ledger: Ledger, clock: ManualClock
) -> None:
    other = await backend.open()
    await ledger.commit(gauge("g", 7, board="red"))
    await other.commit(gauge("g", 7))
    clock.advance()

    stamp = await ledger.erase(GAUGE, TENANT, "g", actor="eve", cause="gdpr")

    assert stamp
    assert (stamp.version, stamp.at, stamp.actor, stamp.cause) == (3, clock.now, "eve", "gdpr")
    for each in (ledger, other):
        assert await each.head(GAUGE, TENANT, "g") == Head("g", 3, stamp.at, None)
        assert await each.count(GAUGE, TENANT, "ids", equals={}) == 0
        assert await each.tenants(GAUGE) == [TENANT]
        assert await each.erase(GAUGE, TENANT, "g", actor="eve", cause="gdpr") == stamp
        assert await each.erase(GAUGE, TENANT, "g", actor="eve", cause="another") is None
    assert backend.store.kept(GAUGE) == 1

    anew = await other.commit(gauge("g", 1, expect=0))
    assert anew.stamp
    assert (anew.stamp.version, anew.head) == (4, Gauge(1))
    assert (await ledger.commit(gauge("g", 1, expect=4))).head == Gauge(2)
    again = await ledger.erase(GAUGE, TENANT, "g", actor="eve", cause="gdpr")
    assert again
    assert again.version == 6


async def test_key_at_another_version_is_not_erased(ledger: Ledger) -> None:
    await ledger.commit(gauge("g"))
    await ledger.commit(gauge("g"))

    with pytest.raises(RevisionConflict) as refused:
        await ledger.erase(GAUGE, TENANT, "g", actor="eve", cause="gdpr", version=1)
    assert refused.value.context == {"expected": 1, "actual": 2}
    assert await ledger.erase(GAUGE, TENANT, "never", actor="eve", cause=None) is None
    assert await ledger.erase(GAUGE, TENANT, "g", actor="eve", cause="gdpr", version=2)


async def test_erasure_spends_request_ids_and_forgets_event_ids(backend: Backend, ledger: Ledger) -> None:
    other = await backend.open()
    for number in range(3):
        await ledger.commit(gauge("g", told=Told(request_id=f"r{number}", once=f"o{number}")))
    kept = await ledger.commit(gauge("g2", told=Told(request_id="kept", once="o0")))
    theirs = await ledger.commit(gauge("g", told=Told(tenant="zeta", request_id="r0", once="o0")))
    await ledger.erase(GAUGE, TENANT, "g", actor="eve", cause="gdpr")

    for each in (ledger, other, await backend.open()):
        for number in range(3):
            for late in (gauge("g"), gauge("another"), count("c")):
                with pytest.raises(NotFound, match="erased") as refused:
                    await each.commit(replace(late, request_id=RequestId(f"r{number}")))
                assert refused.value.context == {"entity": "gauge", "erased": True}
        for repeated in (Told(request_id="kept"), Told(once="o0")):
            assert (await each.commit(gauge("g2", told=repeated))).stamp == kept.stamp
        assert (await each.commit(gauge("g", told=Told(tenant="zeta", request_id="r0")))).stamp == theirs.stamp
    outcome = await other.commit(gauge("g", told=Told(once="o1")))
    assert (outcome.duplicate, outcome.head) == (False, Gauge(1))
    assert (await other.commit(gauge("g", told=Told(once="o1")))).stamp == outcome.stamp


async def test_requests_of_a_new_life_outlive_the_erasure_of_the_one_before(backend: Backend, ledger: Ledger) -> None:
    other = await backend.open()
    for life in range(3):
        first = await ledger.commit(gauge("g", told=Told(request_id=f"r{life}", once="o")))
        assert (await other.commit(gauge("g", told=Told(request_id=f"r{life}")))).stamp == first.stamp
        assert (await other.commit(gauge("g", told=Told(once="o")))).stamp == first.stamp
        await other.erase(GAUGE, TENANT, "g", actor="eve", cause=f"{life}")
    for life in range(3):
        with pytest.raises(NotFound):
            await ledger.commit(gauge("g", told=Told(request_id=f"r{life}")))


@pytest.mark.parametrize("gauge_first", [True, False])
async def test_erasure_of_what_answers_a_write_on_both_kinds_spends_it(ledger: Ledger, gauge_first: bool) -> None:
    told = Told(request_id="r", once="o")
    await ledger.commit(count_and_gauge("x", gauge_first=gauge_first, told=told))
    await announce_all(ledger)
    await ledger.erase(GAUGE if gauge_first else COUNTER, TENANT, "x", actor="eve", cause="gdpr")
    await announce_all(ledger)

    with pytest.raises(NotFound):
        await ledger.commit(count_and_gauge("x", gauge_first=gauge_first, told=Told(request_id="r")))
    again = await ledger.commit(count_and_gauge("x", gauge_first=gauge_first, told=Told(once="o")))
    assert again.duplicate is False


@pytest.mark.parametrize(("own", "first"), [(COUNTER, GAUGE), (GAUGE, COUNTER)], ids=["counter", "gauge"])
async def test_once_of_another_key_goes_with_what_answers_it(
    backend: Backend, ledger: Ledger, own: AnyEntity, first: AnyEntity
) -> None:
    appends: dict[str, Append[Any, Any]] = {
        "counter": Append(COUNTER, "x", CounterSet(1)),
        "gauge": Append(GAUGE, "x", Gauge(1)),
    }

    def decide(heads: Heads, now: int) -> Decision:
        return [appends[first.name], appends[own.name]]

    outcome = await ledger.commit(write(own, "x", decide, Told(once="o")))
    assert outcome.stamp
    assert outcome.stamp.entity == first.name
    assert (await (await backend.open()).commit(write(own, "x", decide, Told(once="o")))).stamp == outcome.stamp
    await announce_all(ledger)
    await ledger.erase(first, TENANT, "x", actor="eve", cause="gdpr")
    await announce_all(ledger)

    assert (await ledger.commit(write(own, "x", decide, Told(once="o")))).duplicate is False


async def test_request_outlives_the_erasure_of_what_does_not_answer_it(ledger: Ledger) -> None:
    told = Told(request_id="r", once="o")
    first = await ledger.commit(count_and_gauge("x", gauge_first=False, told=told))
    await ledger.erase(GAUGE, TENANT, "x", actor="eve", cause="gdpr")

    for repeated in (Told(request_id="r"), Told(once="o")):
        again = await ledger.commit(count_and_gauge("x", gauge_first=False, told=repeated))
        assert (again.duplicate, again.stamp, again.record) == (True, first.stamp, first.record)


async def test_many_keys_are_erased_at_once(backend: Backend, ledger: Ledger) -> None:
    ids = [f"g{number}" for number in range(120)]
    await asyncio.gather(*[ledger.commit(gauge(id, told=Told(request_id=id))) for id in ids])

    stamps = await asyncio.gather(*[ledger.erase(GAUGE, TENANT, id, actor="eve", cause="gdpr") for id in ids])

    assert [(stamp.id, stamp.version) for stamp in stamps if stamp] == [(id, 2) for id in ids]
    late = [ledger.commit(gauge(id, told=Told(request_id=id))) for id in ids]
    assert {type(each) for each in await asyncio.gather(*late, return_exceptions=True)} == {NotFound}
    assert backend.store.kept(GAUGE) == 120


async def test_erasures_and_writes_that_race_leave_whole_lives(backend: Backend, ledger: Ledger) -> None:
    """Each life begins at zero right above a fence, and every version belongs to one write."""
    other = await backend.open()
    both = (ledger, other)
    await ledger.commit(gauge("g"))
    queued = [both[number % 2].commit(gauge("g")) for number in range(40)]
    erasing = [both[number % 2].erase(GAUGE, TENANT, "g", actor="eve", cause=f"{number}") for number in range(6)]
    queued += [both[number % 2].commit(gauge("g")) for number in range(40)]

    stamps, outcomes = await within(asyncio.gather(asyncio.gather(*erasing), asyncio.gather(*queued)))

    fences = sorted(stamp.version for stamp in stamps if stamp)
    written = {outcome.stamp.version: outcome.head.value for outcome in outcomes if outcome.stamp}
    assert sorted([1, *fences, *written]) == list(range(1, 82 + len(fences)))
    lives = [0, *fences]
    for version, value in written.items():
        assert value == version - max(fence for fence in lives if fence < version)
