"""Acknowledged commits are durable, complete and in order; refused ones leave nothing."""

import asyncio

import pytest

from hivemem_contracts.errors import HiveError, NotFound, RevisionConflict
from hivemem_runtime.ledger.entity import Stamp
from hivemem_runtime.ledger.port import Append, Decision, Heads, Ledger

from .backends import Backend, within
from .clock import SECOND, ManualClock
from .entities import COUNTER, NOTE, CounterHead, CounterSet, NoteEdited
from .writes import TENANT, Told, count, edit, nothing, write


async def test_first_write_answers_version_one_with_its_stamp_record_and_head(
    ledger: Ledger, clock: ManualClock
) -> None:
    told = Told(actor="bo", cause="message-7", traceparent="00-ab-cd-01")

    outcome = await ledger.commit(count("c", 5, name="red", told=told))

    assert outcome.stamp == Stamp(TENANT, "counter", "c", 1, clock.now, "bo", "message-7", "00-ab-cd-01")
    assert outcome.record == CounterSet(5, "red")
    assert outcome.head == CounterHead(5, "red")
    assert outcome.duplicate is False


async def test_committed_write_is_read_back_whole(ledger: Ledger) -> None:
    outcome = await ledger.commit(edit("n", "hello", board="b", rank=3, line=True, author="ada"))

    head = await ledger.head(NOTE, TENANT, "n")
    record = await ledger.record(NOTE, TENANT, "n", 1)

    assert outcome.stamp is not None
    assert head is not None
    assert (head.id, head.version, head.at, head.value) == ("n", 1, outcome.stamp.at, outcome.head)
    assert record is not None
    assert (record.stamp, record.value) == (outcome.stamp, outcome.record)


async def test_versions_of_a_key_grow_by_one_from_one(ledger: Ledger) -> None:
    outcomes = [await ledger.commit(count("c")) for _ in range(10)]

    assert [outcome.stamp and outcome.stamp.version for outcome in outcomes] == list(range(1, 11))
    assert [outcome.head for outcome in outcomes] == [CounterHead(value, "") for value in range(1, 11)]


async def test_writes_queued_together_are_decided_in_the_order_of_the_calls(ledger: Ledger) -> None:
    queued = [ledger.commit(edit("n", f"{number}", add=number)) for number in range(300)]

    outcomes = await asyncio.gather(*queued)

    assert [outcome.record.text for outcome in outcomes] == [str(number) for number in range(300)]
    assert [outcome.stamp and outcome.stamp.version for outcome in outcomes] == list(range(1, 301))
    assert outcomes[-1].head.total == sum(range(300))


async def test_acknowledged_write_is_there_for_another_process_at_once(backend: Backend, ledger: Ledger) -> None:
    other = await backend.open()

    for number in range(1, 6):
        await ledger.commit(count("c"))
        head = await other.head(COUNTER, TENANT, "c")

        assert head is not None
        assert head.value == CounterHead(number, "")


async def test_acknowledged_writes_survive_a_restart(backend: Backend, ledger: Ledger) -> None:
    for number in range(10):
        await ledger.commit(edit("n", f"{number}", add=number))
    before = await ledger.history(NOTE, TENANT, "n", limit=100)
    head = await ledger.head(NOTE, TENANT, "n")

    again = await backend.reopen(ledger)

    assert await again.history(NOTE, TENANT, "n", limit=100) == before
    assert await again.head(NOTE, TENANT, "n") == head
    outcome = await again.commit(edit("n", "more", add=100))
    assert outcome.stamp
    assert outcome.stamp.version == 11
    assert outcome.head.total == 145


async def test_decision_is_given_the_time_that_its_records_get(ledger: Ledger, clock: ManualClock) -> None:
    times: list[int] = []

    def decide(heads: Heads, now: int) -> Decision:
        times.append(now)
        return [Append(COUNTER, "c", CounterSet(now))]

    outcome = await ledger.commit(write(COUNTER, "c", decide))

    assert outcome.stamp
    assert outcome.stamp.at == times[-1] == clock.now


async def test_commit_times_of_a_key_strictly_grow_while_the_clock_stands(ledger: Ledger, clock: ManualClock) -> None:
    outcomes = await asyncio.gather(*[ledger.commit(count("c")) for _ in range(20)])

    times = [outcome.stamp.at for outcome in outcomes if outcome.stamp]
    assert times == sorted(set(times))
    assert len(times) == 20
    assert times[0] == clock.now
    assert times[-1] < clock.now + SECOND


async def test_commit_times_of_a_key_strictly_grow_while_the_clock_runs_backwards(
    backend: Backend, ledger: Ledger, clock: ManualClock
) -> None:
    times: list[int] = []
    for _ in range(10):
        clock.advance(-SECOND)
        outcome = await ledger.commit(count("c"))
        times.append(outcome.stamp.at if outcome.stamp else 0)
    again = await backend.reopen(ledger)
    clock.advance(-3600 * SECOND)
    outcome = await again.commit(count("c"))
    times.append(outcome.stamp.at if outcome.stamp else 0)

    assert times == sorted(set(times))
    assert [await again.version_at(COUNTER, TENANT, "c", at) for at in times] == list(range(1, 12))


async def test_refused_write_raises_what_the_decision_raised_and_leaves_nothing(ledger: Ledger) -> None:
    with pytest.raises(RevisionConflict) as refusal:
        await ledger.commit(edit("n", "too early", expect=3, told=Told(request_id="r", once="o")))

    assert refusal.value.context == {"expected": 3, "actual": 0}
    assert await ledger.head(NOTE, TENANT, "n") is None
    assert await ledger.record(NOTE, TENANT, "n", 1) is None
    assert await ledger.history(NOTE, TENANT, "n", limit=10) == []
    assert await ledger.due(older_than=2**53, limit=10) == []


async def test_refused_writes_leave_their_neighbours_in_the_batch_alone(ledger: Ledger) -> None:
    def refuse(heads: Heads, now: int) -> Decision:
        raise NotFound("no")

    def stumble(heads: Heads, now: int) -> Decision:
        raise ZeroDivisionError("a fault of the decision")

    queued = [
        ledger.commit(count("c")),
        ledger.commit(write(COUNTER, "c", refuse)),
        ledger.commit(count("c")),
        ledger.commit(write(COUNTER, "c", stumble)),
        ledger.commit(count("d")),
        ledger.commit(count("c", expect=9)),
        ledger.commit(count("c")),
    ]
    outcomes = await within(asyncio.gather(*queued, return_exceptions=True))

    assert [type(outcome).__name__ for outcome in outcomes] == [
        *("Outcome", "NotFound", "Outcome", "ZeroDivisionError", "Outcome", "RevisionConflict", "Outcome")
    ]
    heads = await ledger.heads(COUNTER, TENANT, ["c", "d"])
    assert {id: head.version for id, head in heads.items()} == {"c": 3, "d": 1}
    assert outcomes[-1].head == CounterHead(3, "")


async def test_value_that_no_store_can_keep_fails_alone(ledger: Ledger) -> None:
    queued = [
        ledger.commit(edit("n", "before", add=1)),
        ledger.commit(edit("n", "object", add=100, body=object())),
        ledger.commit(edit("n", "half of a character", add=100, body="\ud800")),
        ledger.commit(edit("m", "other", add=1)),
        ledger.commit(edit("n", "after", add=1)),
    ]
    first, strange, half, other, last = await within(asyncio.gather(*queued, return_exceptions=True))

    assert isinstance(strange, Exception)
    assert isinstance(half, Exception)
    assert (first.head.total, other.head.total, last.head.total) == (1, 1, 2)
    assert [record.value.text for record in await ledger.history(NOTE, TENANT, "n", limit=9)] == ["before", "after"]


async def test_decision_to_do_nothing_appends_nothing(ledger: Ledger) -> None:
    await ledger.commit(count("c"))

    outcome = await ledger.commit(nothing("c"))

    assert (outcome.stamp, outcome.record, outcome.duplicate) == (None, None, False)
    head = await ledger.head(COUNTER, TENANT, "c")
    assert head is not None
    assert head.version == 1
    assert await ledger.head(COUNTER, TENANT, "d") is None


async def test_equal_ids_of_other_tenants_and_entities_are_other_keys(ledger: Ledger) -> None:
    await ledger.commit(count("same", 1))
    await ledger.commit(count("same", 2, told=Told(tenant="zeta")))
    await ledger.commit(edit("same", "a note", add=3))

    ours = await ledger.head(COUNTER, TENANT, "same")
    theirs = await ledger.head(COUNTER, "zeta", "same")
    note = await ledger.head(NOTE, TENANT, "same")

    assert ours
    assert theirs
    assert note
    assert (ours.value, theirs.value) == (CounterHead(1, ""), CounterHead(2, ""))
    assert note.value
    assert note.value.total == 3
    assert await ledger.head(NOTE, "zeta", "same") is None
    assert len(await ledger.history(COUNTER, "zeta", "same", limit=9)) == 1


async def test_heads_answers_those_that_were_ever_written(ledger: Ledger) -> None:
    ids = [f"c{number}" for number in range(1000)]
    await asyncio.gather(*[ledger.commit(count(id, int(id[1:]))) for id in ids[::2]])

    found = await ledger.heads(COUNTER, TENANT, [*ids, "c0", "c1"])

    assert set(found) == set(ids[::2])
    assert all(head.value == CounterHead(int(id[1:]), "") and head.id == id for id, head in found.items())
    assert await ledger.heads(COUNTER, TENANT, []) == {}


async def test_caller_that_gives_up_harms_nobody(ledger: Ledger) -> None:
    async def ask() -> None:
        await ledger.commit(count("c"))

    tasks = [asyncio.create_task(ask()) for _ in range(6)]
    await asyncio.sleep(0)
    for task in tasks[::2]:
        task.cancel()
    await within(asyncio.gather(*tasks, return_exceptions=True))

    outcome = await within(ledger.commit(count("c")))

    # A write without a waiting caller may or may not be committed, but the others are.
    assert outcome.stamp
    assert 4 <= outcome.stamp.version <= 7
    assert outcome.head == CounterHead(outcome.stamp.version, "")


async def test_outcome_is_kept_for_a_caller_that_asks_late(ledger: Ledger) -> None:
    early = ledger.commit(count("c"))
    late = await ledger.commit(count("c"))

    assert late.head == CounterHead(2, "")
    assert (await early).head == CounterHead(1, "")


async def test_close_finishes_what_was_submitted(backend: Backend, ledger: Ledger) -> None:
    queued = [ledger.commit(count(f"c{number % 7}")) for number in range(700)]

    await backend.close(ledger)

    outcomes = await within(asyncio.gather(*queued))
    assert all(outcome.stamp for outcome in outcomes)
    again = await backend.open()
    heads = await again.heads(COUNTER, TENANT, [f"c{number}" for number in range(7)])
    assert [head.value for head in heads.values()] == [CounterHead(100, "")] * 7


async def test_closed_ledger_refuses_writes_instead_of_keeping_them_waiting(backend: Backend, ledger: Ledger) -> None:
    await ledger.commit(count("c"))
    await backend.close(ledger)

    async def submit() -> object:
        return await ledger.commit(count("c"))

    with pytest.raises(HiveError):
        await within(submit())

    again = await backend.open()
    head = await again.head(COUNTER, TENANT, "c")
    assert head
    assert head.version == 1


async def test_check_passes_while_the_store_can_be_written(ledger: Ledger) -> None:
    await within(ledger.check())
    assert (await ledger.commit(edit("n", "still", add=1))).record == NoteEdited("still", add=1)
    await within(ledger.check())
