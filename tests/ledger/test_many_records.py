"""Several records of one key in one decision are appended in order, all or none."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from hivemem_contracts.errors import Unavailable
from hivemem_runtime.ledger.past import head_at
from hivemem_runtime.ledger.port import Append, Committed, Decision, Heads, Ledger, Write

from .backends import Backend, within
from .clock import SECOND, ManualClock
from .entities import COUNTER, NOTE, CounterHead, CounterSet, NoteEdited
from .waiting import FAR, announce_all
from .writes import TENANT, Told, count, edit, series, value_of, write


def _counts(id: str, *values: int, told: Told | None = None) -> Write:
    return write(COUNTER, id, lambda _heads, _now: [Append(COUNTER, id, CounterSet(value)) for value in values], told)


async def test_records_of_one_key_follow_one_another_in_their_order(ledger: Ledger, clock: ManualClock) -> None:
    heard: list[Committed] = []
    ledger.on_commit(heard.extend)
    await ledger.commit(edit("n", "before", add=100))

    outcome = await ledger.commit(
        write(NOTE, "n", lambda _h, _n: [Append(NOTE, "n", NoteEdited(f"{n}", add=n, position=n)) for n in range(1, 8)])
    )

    assert outcome.stamp
    assert (outcome.stamp.version, outcome.record.text, outcome.head.total) == (2, "1", 101)
    records = await ledger.history(NOTE, TENANT, "n", limit=99)
    assert [record.stamp.version for record in records] == list(range(1, 9))
    assert [record.value.text for record in records[1:]] == ["1", "2", "3", "4", "5", "6", "7"]
    assert [record.stamp.at for record in records[1:]] == [outcome.stamp.at + step for step in range(7)]
    assert [record.snapshot is not None for record in records] == [False, False, False, True] * 2
    assert [each.stamp for each in heard] == [record.stamp for record in records]
    assert [each.head.total for each in heard] == [100, 101, 103, 106, 110, 115, 121, 128]
    head = await ledger.head(NOTE, TENANT, "n")
    assert head
    assert (head.version, head.at, head.value) == (8, records[-1].stamp.at, heard[-1].head)


async def test_head_after_each_of_them_is_known(ledger: Ledger) -> None:
    heard: list[Committed] = []
    ledger.on_commit(heard.extend)
    await ledger.commit(series("n", "c", 11))

    for each in heard:
        past = await head_at(ledger, each.entity, TENANT, each.stamp.id, each.stamp.version)
        assert past
        assert (past.at, past.value) == (each.stamp.at, each.head)
        assert await ledger.version_at(each.entity, TENANT, each.stamp.id, each.stamp.at) == each.stamp.version


async def test_all_else_of_the_commit_shares_one_time(ledger: Ledger, clock: ManualClock) -> None:
    await ledger.commit(count("ahead"))
    clock.now -= SECOND

    outcome = await ledger.commit(
        write(
            NOTE,
            "n",
            lambda _h, _n: [
                Append(NOTE, "n", NoteEdited("first")),
                Append(COUNTER, "c", CounterSet(1)),
                Append(NOTE, "n", NoteEdited("second")),
                Append(COUNTER, "ahead", CounterSet(2)),
                Append(NOTE, "n", NoteEdited("third")),
            ],
        )
    )

    assert outcome.stamp
    at = outcome.stamp.at
    heads = await ledger.heads(COUNTER, TENANT, ["c", "ahead"])
    assert {head.at for head in heads.values()} == {at}
    assert [record.stamp.at for record in await ledger.history(NOTE, TENANT, "n", limit=9)] == [at, at + 1, at + 2]
    assert at == clock.now + SECOND + 1


async def test_times_grow_on_into_the_next_commit(ledger: Ledger) -> None:
    for _ in range(3):
        await ledger.commit(_counts("c", 1, 2, 3, 4))
        await ledger.commit(count("c"))

    times = [record.stamp.at for record in await ledger.history(COUNTER, TENANT, "c", limit=99)]
    assert times == sorted(set(times))
    assert len(times) == 15


async def test_decision_sees_the_same_head_however_much_it_has_decided(ledger: Ledger) -> None:
    seen: list[int] = []

    def decide(heads: Heads, now: int) -> Decision:
        seen.clear()
        appends: list[Append[CounterHead, CounterSet]] = []
        for _ in range(3):
            seen.append(value_of(heads, "c"))
            appends.append(Append(COUNTER, "c", CounterSet(seen[-1] + 1)))
        return appends

    await ledger.commit(count("c", 5))
    await ledger.commit(write(COUNTER, "c", decide))

    assert seen == [5, 5, 5]
    assert [record.value.value for record in await ledger.history(COUNTER, TENANT, "c", limit=9)] == [5, 6, 6, 6]


async def test_writes_beside_it_in_the_batch_see_all_of_it_or_nothing(ledger: Ledger) -> None:
    queued = [ledger.commit(each) for each in (count("c", 1), _counts("c", 10, 20), count("c", 1), count("c", 1))]

    outcomes = await within(asyncio.gather(*queued))

    assert [outcome.head.value for outcome in outcomes] == [1, 10, 21, 22]
    assert [outcome.stamp and outcome.stamp.version for outcome in outcomes] == [1, 2, 4, 5]


NO_NUMBER: Any = "no number"


def _stumbling(bad: Callable[[], NoteEdited]) -> Write:
    def decide(heads: Heads, now: int) -> Decision:
        return [
            Append(NOTE, "n", NoteEdited("one", add=1)),
            Append(COUNTER, "c", CounterSet(7)),
            Append(NOTE, "n", NoteEdited("two", add=1)),
            Append(NOTE, "n", bad()),
        ]

    return write(NOTE, "n", decide, Told(request_id="r", once="o"))


@pytest.mark.parametrize(
    "bad", [lambda: NoteEdited(body=object()), lambda: NoteEdited(add=NO_NUMBER)], ids=["encoding", "evolving"]
)
async def test_nothing_is_kept_where_a_later_record_cannot_be(ledger: Ledger, bad: Callable[[], NoteEdited]) -> None:
    heard: list[Committed] = []
    ledger.on_commit(heard.extend)
    queued = [
        ledger.commit(edit("n", "before", add=10)),
        ledger.commit(_stumbling(bad)),
        ledger.commit(edit("n", "after", add=10, told=Told(request_id="r", once="o"))),
        ledger.commit(count("c")),
    ]
    before, strange, after, counted = await within(asyncio.gather(*queued, return_exceptions=True))

    assert isinstance(strange, Exception)
    assert (before.head.total, after.head.total, after.duplicate) == (10, 20, False)
    assert counted.head == CounterHead(1, "")
    assert [record.value.text for record in await ledger.history(NOTE, TENANT, "n", limit=9)] == ["before", "after"]
    assert [each.stamp.id for each in heard] == ["n", "n", "c"]


@pytest.mark.parametrize("told", [Told(request_id="r"), Told(once="o")])
async def test_repeated_series_answers_its_first_record(backend: Backend, ledger: Ledger, told: Told) -> None:
    first = await ledger.commit(_counts("c", 1, 2, 3, told=told))

    for each in (ledger, await backend.open()):
        again = await each.commit(_counts("c", 1, 2, 3, told=told))
        assert (again.duplicate, again.stamp, again.record, again.head) == (True, first.stamp, CounterSet(1), None)
    head = await ledger.head(COUNTER, TENANT, "c")
    assert head
    assert head.version == 3


async def test_two_processes_that_append_series_to_one_key_lose_none(backend: Backend, ledger: Ledger) -> None:
    other = await backend.open()
    queued = [(ledger, other)[number % 2].commit(series(f"n{number % 2}", "c", 5)) for number in range(20)]

    await within(asyncio.gather(*queued))

    head = await other.head(COUNTER, TENANT, "c")
    assert head
    assert (head.version, head.value) == (100, CounterHead(100, ""))
    records = await ledger.history(COUNTER, TENANT, "c", limit=999)
    assert [record.value.value for record in records] == list(range(1, 101))
    notes = await ledger.heads(NOTE, TENANT, ["n0", "n1"])
    assert [(head.version, head.value and head.value.total) for head in notes.values()] == [(50, 150), (50, 150)]


async def test_series_of_each_version_is_due_and_freezes_and_goes(ledger: Ledger) -> None:
    await ledger.commit(series("n", "c", 9))
    due = await ledger.due(older_than=FAR, limit=9)
    assert {(each.id, each.announced, each.version) for each in due} == {("n", 0, 9), ("c", 0, 9)}
    whole = await ledger.history(NOTE, TENANT, "n", limit=99)
    await announce_all(ledger)

    assert await ledger.freeze(NOTE, TENANT, "n", 5, limit=99) == 5
    assert await ledger.history(NOTE, TENANT, "n", limit=99) == whole
    stamp = await ledger.erase(NOTE, TENANT, "n", actor="eve", cause=None)
    assert stamp
    assert stamp.version == 10


async def test_first_series_after_an_erasure_waits_for_its_announcement(ledger: Ledger) -> None:
    await ledger.commit(_counts("c", 1, 2))
    await announce_all(ledger)
    await ledger.erase(COUNTER, TENANT, "c", actor="eve", cause=None)

    with pytest.raises(Unavailable):
        await ledger.commit(_counts("c", 1, 2))
    await announce_all(ledger)
    outcome = await ledger.commit(_counts("c", 1, 2))

    assert outcome.stamp
    assert outcome.stamp.version == 4
    head = await ledger.head(COUNTER, TENANT, "c")
    assert head
    assert (head.version, head.value) == (5, CounterHead(2, ""))


async def test_long_series_is_one_step(backend: Backend, ledger: Ledger) -> None:
    """The audit appends series of this length."""
    other = await backend.open()
    await ledger.commit(series("n", "c", 500))

    records = await other.history(NOTE, TENANT, "n", limit=999)
    assert [record.value.position for record in records] == list(range(1, 501))
    head = await head_at(other, NOTE, TENANT, "n", 499)
    assert head
    assert head.value
    assert head.value.total == sum(range(500))
