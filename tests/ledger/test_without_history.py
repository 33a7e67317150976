"""For entities without history only the head is kept, and all other promises of a key hold."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from hivemem_contracts.errors import NotFound, RevisionConflict
from hivemem_runtime.ledger.entity import AnyEntity, announces_nothing
from hivemem_runtime.ledger.past import head_as_of, head_at
from hivemem_runtime.ledger.port import (
    Append,
    Committed,
    Covered,
    Decision,
    Head,
    Heads,
    Ledger,
    Write,
    appends_and_answer,
)

from .backends import Backend, within
from .clock import SECOND, ManualClock
from .entities import COUNTER, GAUGE, NOTE, CounterHead, Gauge
from .waiting import FAR, announce_all
from .writes import TENANT, Told, count, count_and_gauge, edit, gauge, shown_by, write


async def _head(ledger: Ledger, id: str = "g") -> Head[Gauge]:
    head = await ledger.head(GAUGE, TENANT, id)
    assert head
    return head


async def test_a_thousand_overwrites_leave_one_head(backend: Backend, ledger: Ledger) -> None:
    other = await backend.open()
    await within(asyncio.gather(*[(ledger, other)[number % 2].commit(gauge("g")) for number in range(1000)]))

    assert (await _head(ledger)).version == 1000
    assert backend.store.kept(GAUGE) == 1


async def test_every_write_is_answered_with_its_stamp_record_and_head(ledger: Ledger) -> None:
    told = Told(cause="why", traceparent="trace")
    await ledger.commit(gauge("g", 5))

    outcome = await ledger.commit(gauge("g", 2, board="red", told=told))

    assert outcome.stamp
    assert (outcome.stamp.entity, outcome.stamp.id, outcome.stamp.version) == ("gauge", "g", 2)
    assert (outcome.stamp.actor, outcome.stamp.cause, outcome.stamp.traceparent) == ("ada", "why", "trace")
    assert (outcome.record, outcome.head, outcome.duplicate) == (Gauge(7, "red"), Gauge(7, "red"), False)
    assert await _head(ledger) == Head("g", 2, outcome.stamp.at, Gauge(7, "red"))


async def test_versions_and_times_grow_on_whatever_the_clock_does(
    backend: Backend, ledger: Ledger, clock: ManualClock
) -> None:
    other = await backend.open()
    outcomes = [await (ledger, other)[turn % 2].commit(gauge("g")) for turn in range(6)]
    clock.now -= SECOND
    outcomes.append(await (await backend.reopen(ledger)).commit(gauge("g")))

    stamps = [outcome.stamp for outcome in outcomes if outcome.stamp]
    assert [stamp.version for stamp in stamps] == [1, 2, 3, 4, 5, 6, 7]
    times = [stamp.at for stamp in stamps]
    assert times == sorted(set(times))


async def test_heads_survive_a_restart(backend: Backend, ledger: Ledger) -> None:
    await asyncio.gather(*[ledger.commit(gauge(f"g{number}", number, body={"n": [number]})) for number in range(20)])
    before = await ledger.heads(GAUGE, TENANT, [f"g{number}" for number in range(20)])

    again = await backend.reopen(ledger)

    assert len(before) == 20
    assert await again.heads(GAUGE, TENANT, list(before)) == before
    assert (await again.commit(gauge("g7", 1, expect=1))).head == Gauge(8)


async def test_heads_are_found_and_counted_like_any_other(backend: Backend, ledger: Ledger) -> None:
    writes = [gauge(f"g{number}", number, board="red" if number % 2 else "blue") for number in range(10)]
    await asyncio.gather(*[ledger.commit(each) for each in writes])
    await ledger.commit(gauge("g1", board="blue"))
    await ledger.commit(gauge("g", told=Told(tenant="zeta")))

    for each in (ledger, await backend.open()):
        page = await each.find(GAUGE, TENANT, "by_board", equals={"board": "red"}, limit=3)
        rest = await each.find(GAUGE, TENANT, "by_board", equals={"board": "red"}, limit=3, cursor=page.cursor)
        assert [head.id for head in (*page.items, *rest.items)] == ["g3", "g5", "g7", "g9"]
        assert await each.count(GAUGE, TENANT, "by_board", equals={"board": "blue"}, low=2, high=8) == 4
        covered = await each.covered(GAUGE, TENANT, "ids", equals={}, limit=2)
        assert covered.items == [
            Covered("g0", {"value": 0, "board": "blue"}),
            Covered("g1", {"value": 2, "board": "blue"}),
        ]
        assert await each.tenants(GAUGE) == [TENANT, "zeta"]


@pytest.mark.parametrize("told", [Told(request_id="r"), Told(once="o"), Told(request_id="r", once="o")])
async def test_duplicate_answers_the_first_stamp_after_any_number_of_writes(
    backend: Backend, ledger: Ledger, clock: ManualClock, told: Told
) -> None:
    told = replace(told, actor="bo", cause="why", traceparent="trace")
    first = await ledger.commit(gauge("g", 3, told=told))
    for _ in range(20):
        clock.advance()
        await ledger.commit(gauge("g", 10))

    for each in (ledger, await backend.open()):
        again = await each.commit(gauge("g", 99, told=replace(told, actor="ada", cause="another")))
        assert (again.duplicate, again.stamp, again.record, again.head) == (True, first.stamp, None, None)
        assert (await _head(each)).value == Gauge(203)


@pytest.mark.parametrize("told", [Told(request_id="r"), Told(once="o")])
async def test_duplicates_at_once_are_applied_once_and_know_no_record(
    backend: Backend, ledger: Ledger, told: Told
) -> None:
    other = await backend.open()
    queued = [each.commit(gauge("g", told=told)) for _ in range(10) for each in (ledger, other)]

    outcomes = await within(asyncio.gather(*queued))

    (first,) = [outcome for outcome in outcomes if not outcome.duplicate]
    assert (first.record, first.head) == (Gauge(1), Gauge(1))
    assert {(each.stamp, each.record, each.head) for each in outcomes if each.duplicate} == {(first.stamp, None, None)}
    assert (await _head(ledger)).version == 1


@pytest.mark.parametrize("gauge_first", [True, False])
async def test_duplicate_of_a_write_on_both_kinds_answers_its_first_record(
    backend: Backend, ledger: Ledger, gauge_first: bool
) -> None:
    told = Told(request_id="r", once="o")
    first = await ledger.commit(count_and_gauge("x", gauge_first=gauge_first, told=told))
    await ledger.commit(count_and_gauge("x", gauge_first=gauge_first))

    for each in (ledger, await backend.open()):
        for repeated in (Told(request_id="r"), Told(once="o")):
            again = await each.commit(count_and_gauge("x", gauge_first=gauge_first, told=repeated))
            assert (again.duplicate, again.stamp) == (True, first.stamp)
            assert again.record == (None if gauge_first else first.record)
    heads = await ledger.heads(COUNTER, TENANT, ["x"])
    assert (heads["x"].value, (await _head(ledger, "x")).value) == (CounterHead(2, ""), Gauge(2))


async def test_request_that_did_nothing_stays_done(ledger: Ledger) -> None:
    told = Told(request_id="r")
    await ledger.commit(write(GAUGE, "g", lambda _heads, _now: [], told))
    await ledger.commit(gauge("g", 5))

    again = await ledger.commit(gauge("g", 1, told=told))

    assert (again.duplicate, again.stamp) == (True, None)
    assert (await _head(ledger)).value == Gauge(5)


async def test_request_ids_are_forgotten_in_the_end_and_once_is_not(backend: Backend, clock: ManualClock) -> None:
    ledger = await backend.open(request_memory_seconds=600)
    first = await ledger.commit(gauge("g", told=Told(request_id="r", once="o")))
    clock.advance(599 * SECOND)
    await backend.store.forget_requests(ledger, clock.now)
    assert (await ledger.commit(gauge("g", told=Told(request_id="r")))).stamp == first.stamp

    clock.advance(2 * SECOND)
    await backend.store.forget_requests(ledger, clock.now)

    assert (await ledger.commit(gauge("g", told=Told(request_id="r")))).duplicate is False
    assert (await ledger.commit(gauge("g", told=Told(once="o")))).stamp == first.stamp


async def test_fifty_tasks_on_one_key_at_two_processes_lose_no_update(backend: Backend, ledger: Ledger) -> None:
    other = await backend.open()

    async def work(number: int) -> None:
        for _ in range(10):
            await (ledger, other)[number % 2].commit(gauge("g"))

    await within(asyncio.gather(*[work(number) for number in range(50)]))

    head = await _head(ledger)
    assert (head.version, head.value) == (500, Gauge(500))


async def test_expected_version_is_that_of_the_newest_head(backend: Backend, ledger: Ledger) -> None:
    other = await backend.open()
    for expected in range(6):
        await (other, ledger)[expected % 2].commit(gauge("g", expect=expected))
        with pytest.raises(RevisionConflict):
            await (ledger, other)[expected % 2].commit(gauge("g", expect=expected))


def _guarded(target: str, guard: str) -> Write:
    """Increment one gauge only while another one is zero."""

    def decide(heads: Heads, now: int) -> Decision:
        if shown_by(heads, guard):
            raise NotFound(f"{guard} is taken")
        return [Append(GAUGE, target, Gauge(shown_by(heads, target) + 1))]

    return write(GAUGE, target, decide)


@pytest.mark.parametrize("made", [True, False], ids=["that-are-there", "that-were-never-written"])
async def test_decisions_that_read_each_others_keys_never_both_pass(
    backend: Backend, ledger: Ledger, made: bool
) -> None:
    other = await backend.open()
    pairs = [(f"left-{number}", f"right-{number}") for number in range(20)]
    if made:
        await asyncio.gather(*[ledger.commit(gauge(id, 0)) for pair in pairs for id in pair])
    queued = [
        each.commit(_guarded(*seats))
        for left, right in pairs
        for each, seats in ((ledger, (left, right)), (other, (right, left)))
    ]
    outcomes = await within(asyncio.gather(*queued, return_exceptions=True))

    assert sum(isinstance(outcome, NotFound) for outcome in outcomes) == 20
    taken = await ledger.heads(GAUGE, TENANT, [id for pair in pairs for id in pair])
    assert [sum(id in taken and taken[id].value == Gauge(1) for id in pair) for pair in pairs] == [1] * 20


async def test_several_records_of_one_key_are_as_many_versions(ledger: Ledger) -> None:
    heard: list[Committed] = []
    ledger.on_commit(heard.extend)
    told = Told(request_id="r")

    def decide(heads: Heads, now: int) -> Decision:
        return [Append(GAUGE, id, Gauge(value)) for value in (1, 2, 3) for id in ("g", "h")]

    first = await ledger.commit(write(GAUGE, "g", decide, told))
    again = await ledger.commit(write(GAUGE, "g", decide, told))

    assert first.stamp
    assert (first.stamp.version, first.head, again.duplicate, again.stamp) == (1, Gauge(1), True, first.stamp)
    assert [(each.stamp.id, each.stamp.version, each.head.value) for each in heard] == [
        (id, version, version) for version in (1, 2, 3) for id in ("g", "h")
    ]
    for id in ("g", "h"):
        assert await _head(ledger, id) == Head(id, 3, first.stamp.at + 2, Gauge(3))


async def test_value_that_no_store_can_keep_fails_alone(ledger: Ledger) -> None:
    queued = [ledger.commit(each) for each in (gauge("g"), gauge("g", body=object()), gauge("g"), count("c"))]

    fine, strange, after, counted = await within(asyncio.gather(*queued, return_exceptions=True))

    assert isinstance(strange, Exception)
    assert (fine.head, after.head, counted.head) == (Gauge(1), Gauge(2), CounterHead(1, ""))


async def test_many_large_heads_are_written_at_once(ledger: Ledger) -> None:
    """Together the heads exceed a store's limit for one message."""
    ids = [f"g{number}" for number in range(40)]
    for turn in (1, 2):
        body = f"{turn}" * 500_000
        await within(asyncio.gather(*[ledger.commit(gauge(id, body=body)) for id in ids]))
    heads = await ledger.heads(GAUGE, TENANT, ids)
    assert {(head.version, head.value == Gauge(2, None, "2" * 500_000)) for head in heads.values()} == {(2, True)}


async def test_nothing_is_ever_due_and_listeners_hear_that_nothing_is_to_be_announced(
    backend: Backend, ledger: Ledger
) -> None:
    other = await backend.open()
    heard: list[Committed] = []
    ledger.on_commit(heard.extend)
    await ledger.commit(gauge("g"))
    await other.commit(gauge("g"))
    await ledger.commit(gauge("g", 2))
    await ledger.commit(count_and_gauge("x", gauge_first=True))
    stamp = await ledger.erase(GAUGE, TENANT, "g", actor="eve", cause="gdpr")

    assert [(each.stamp.id, each.stamp.version, each.announced, each.erased) for each in heard] == [
        ("g", 1, 1, False),
        ("g", 3, 3, False),
        ("x", 1, 1, False),
        ("x", 1, 0, False),
        ("g", 4, 4, True),
    ]
    assert (heard[1].entity, heard[1].record, heard[1].head) == (GAUGE, Gauge(4), Gauge(4))
    assert (heard[4].stamp, heard[4].record, heard[4].head) == (stamp, None, None)
    for each in (ledger, other):
        assert [(due.entity, due.id) for due in await each.due(older_than=FAR, limit=9)] == [("counter", "x")]


PAST: dict[str, Callable[[Ledger], Awaitable[Any]]] = {
    "record": lambda ledger: ledger.record(GAUGE, TENANT, "g", 1),
    "history": lambda ledger: ledger.history(GAUGE, TENANT, "g", limit=9),
    "version_at": lambda ledger: ledger.version_at(GAUGE, TENANT, "g", FAR),
    "as_of": lambda ledger: ledger.as_of(GAUGE, TENANT, ["g"], FAR),
    "freeze": lambda ledger: ledger.freeze(GAUGE, TENANT, "g", 1, limit=9),
    "head_at": lambda ledger: head_at(ledger, GAUGE, TENANT, "g", 1),
    "head_as_of": lambda ledger: head_as_of(ledger, GAUGE, TENANT, "g", FAR),
}


@pytest.mark.parametrize("asked", PAST)
async def test_asking_for_the_past_is_an_error_of_the_program(ledger: Ledger, asked: str) -> None:
    await ledger.commit(gauge("g"))

    with pytest.raises(AssertionError, match="gauge keeps no history"):
        await PAST[asked](ledger)


@pytest.mark.parametrize(
    "declared",
    [
        {"announce": NOTE.announce},
        {"announce_erased": NOTE.announce_erased},
        {"position": NOTE.position},
        {"tag_fields": NOTE.tag_fields},
        {"tags": NOTE.tags},
        {"snapshot_every": 4},
    ],
    ids=lambda declared: next(iter(declared)),
)
def test_what_is_made_from_records_cannot_be_declared(declared: dict[str, Any]) -> None:
    with pytest.raises(AssertionError, match="gauge keeps no history"):
        replace(GAUGE, **declared)


FORGETFUL: AnyEntity = replace(COUNTER, history=False, announce=announces_nothing, announce_erased=None)
"""A counter as a later release might declare it."""


async def test_history_that_is_given_up_goes_with_its_key(backend: Backend, ledger: Ledger) -> None:
    told = Told(request_id="before", once="o")
    for id in ("c", "d"):
        for number in range(3):
            await ledger.commit(count(id, told=replace(told, request_id=f"{id}{number}", once=f"{number}")))
    await announce_all(ledger)
    await ledger.freeze(COUNTER, TENANT, "c", 1, limit=9)
    first = await ledger.commit(count("c", told=told))
    await backend.close(ledger)

    later = await backend.open([NOTE, FORGETFUL, GAUGE])
    assert (await later.commit(edit("n"))).stamp
    assert [due.entity for due in await later.due(older_than=FAR, limit=9)] == ["note"]
    again = await later.commit(count("c", told=told))
    assert (again.duplicate, again.stamp, again.record) == (True, first.stamp, first.record)
    before = backend.store.kept(FORGETFUL)
    await later.commit(_forgetful_count("c", Told(request_id="after")))
    assert backend.store.kept(FORGETFUL) == before

    stamp = await later.erase(FORGETFUL, TENANT, "c", actor="eve", cause="gdpr")

    assert stamp
    assert stamp.version == 6
    for request_id in ("c0", "before", "after"):
        with pytest.raises(NotFound):
            await later.commit(_forgetful_count("c", Told(request_id=request_id)))
    assert (await later.commit(_forgetful_count("c", Told(once="0")))).duplicate is False
    assert (await later.commit(_forgetful_count("d", Told(request_id="d0")))).duplicate
    assert backend.store.kept(FORGETFUL) == 2 + 3


def _forgetful_count(id: str, told: Told) -> Write:
    def decide(heads: Heads, now: int) -> Decision:
        appends, _ = appends_and_answer(count(id).decide(heads, now))
        return [Append(FORGETFUL, append.id, append.record) for append in appends]

    return write(FORGETFUL, id, decide, told)
