"""One write on several keys is applied completely or not at all."""

import asyncio

from hivemem_contracts.errors import NotFound
from hivemem_runtime.ledger.port import Append, Decision, Heads, Ledger

from .backends import Backend, within
from .clock import ManualClock
from .entities import COUNTER, NOTE, CounterHead, CounterSet, NoteEdited
from .writes import TENANT, Told, count, edit, note_and_count, transfer, value_of, write


async def test_first_record_of_a_decision_is_the_outcome(ledger: Ledger) -> None:
    outcome = await ledger.commit(note_and_count("n", "c", "both", told=Told(cause="m")))

    assert outcome.stamp
    assert (outcome.stamp.entity, outcome.stamp.id, outcome.stamp.version) == ("note", "n", 1)
    assert outcome.record.text == "both"
    assert outcome.head.total == 1


async def test_all_records_of_a_decision_are_there(ledger: Ledger) -> None:
    ids = [f"c{number}" for number in range(50)]

    def decide(heads: Heads, now: int) -> Decision:
        return [Append(COUNTER, id, CounterSet(value_of(heads, id) + 1)) for id in ids]

    await ledger.commit(count("c7", 5))
    await ledger.commit(write(COUNTER, "c0", decide, Told(actor="bo", cause="m")))

    heads = await ledger.heads(COUNTER, TENANT, ids)
    assert [head.version for head in heads.values()].count(1) == 49
    assert heads["c7"].value == CounterHead(6, "")
    record = await ledger.record(COUNTER, TENANT, "c49", 1)
    assert record
    assert (record.stamp.actor, record.stamp.cause) == ("bo", "m")


async def test_refused_write_leaves_all_its_keys_alone(ledger: Ledger) -> None:
    def decide(heads: Heads, now: int) -> Decision:
        value_of(heads, "c")
        raise NotFound("no")

    queued = [ledger.commit(count("c")), ledger.commit(write(COUNTER, "c", decide)), ledger.commit(count("d"))]
    await within(asyncio.gather(*queued, return_exceptions=True))

    assert [len(await ledger.history(COUNTER, TENANT, id, limit=9)) for id in ("c", "d")] == [1, 1]


async def test_write_with_one_record_that_cannot_be_kept_leaves_all_its_keys_alone(ledger: Ledger) -> None:
    def decide(heads: Heads, now: int) -> Decision:
        return [Append(COUNTER, "c", CounterSet(1)), Append(NOTE, "n", NoteEdited(body=object()))]

    queued = [
        ledger.commit(write(COUNTER, "c", decide, Told(request_id="r", once="o"))),
        ledger.commit(count("c", 7, told=Told(request_id="r", once="o"))),
    ]
    strange, after = await within(asyncio.gather(*queued, return_exceptions=True))

    assert isinstance(strange, Exception)
    assert (after.duplicate, after.head, after.stamp.version) == (False, CounterHead(7, ""), 1)
    assert await ledger.head(NOTE, TENANT, "n") is None


async def test_decision_sees_what_the_one_before_it_in_the_batch_did_to_any_key(ledger: Ledger) -> None:
    queued = [ledger.commit(count("a", 10))]
    queued += [ledger.commit(transfer(source, target, 10)) for source, target in ("ab", "bc", "cd", "da", "ab")]

    outcomes = await within(asyncio.gather(*queued))

    assert [outcome.head.value for outcome in outcomes] == [10, 0, 0, 0, 0, 0]
    heads = await ledger.heads(COUNTER, TENANT, list("abcd"))
    assert {id: head.value and head.value.value for id, head in heads.items()} == {"a": 0, "b": 10, "c": 0, "d": 0}


async def test_reader_never_sees_half_a_write(backend: Backend, ledger: Ledger) -> None:
    """A reader that sees the first key's new head sees the second key's when it looks after that."""
    other = await backend.open()
    await ledger.commit(count("a", 200))
    await ledger.commit(count("b", 0))
    queued = [ledger.commit(transfer("a", "b", 1)) for _ in range(200)]
    done = asyncio.gather(*queued)

    while not done.done():
        heads = await other.heads(COUNTER, TENANT, ["a", "b"])
        assert sum(head.value.value for head in heads.values() if head.value) == 200
        await asyncio.sleep(0)
    await done


async def test_writes_on_overlapping_keys_at_two_processes_are_each_whole(backend: Backend, ledger: Ledger) -> None:
    other = await backend.open()
    queued = [
        (ledger, other)[number % 2].commit(note_and_count(f"n{number % 3}", f"c{number % 4}", f"{number}"))
        for number in range(120)
    ]
    await within(asyncio.gather(*queued))

    notes = await ledger.heads(NOTE, TENANT, ["n0", "n1", "n2"])
    counters = await ledger.heads(COUNTER, TENANT, ["c0", "c1", "c2", "c3"])
    assert [head.value and head.value.total for head in notes.values()] == [40, 40, 40]
    assert [head.value and head.value.value for head in counters.values()] == [30, 30, 30, 30]


async def test_records_of_one_write_share_cause_actor_and_trace(ledger: Ledger) -> None:
    told = Told(actor="bo", cause="m", traceparent="00-1-2-01")
    await ledger.commit(edit("n", "before"))
    await ledger.commit(note_and_count("n", "c", "both", told=told))

    line = await ledger.record(NOTE, TENANT, "n", 2)
    counted = await ledger.record(COUNTER, TENANT, "c", 1)

    assert line
    assert counted
    for stamp in (line.stamp, counted.stamp):
        assert (stamp.actor, stamp.cause, stamp.traceparent) == ("bo", "m", "00-1-2-01")


async def test_all_that_is_committed_together_has_one_time(ledger: Ledger, clock: ManualClock) -> None:
    await ledger.commit(write(COUNTER, "ahead", lambda _h, _n: [Append(COUNTER, "ahead", CounterSet(1))]))
    clock.now -= 1_000_000
    both = [Append(COUNTER, "behind", CounterSet(1)), Append(COUNTER, "ahead", CounterSet(2))]
    outcome = await ledger.commit(write(COUNTER, "behind", lambda _h, _n: both))
    other = await ledger.head(COUNTER, TENANT, "ahead")
    assert outcome.stamp is not None
    assert other is not None
    assert outcome.stamp.at == other.at


async def test_decision_on_a_thousand_keys_reads_them_together(backend: Backend, ledger: Ledger) -> None:
    ids = [f"c{number}" for number in range(1000)]

    def decide(heads: Heads, now: int) -> Decision:
        found = [heads(COUNTER, id) for id in ids]
        values = [head.value.value if head and head.value else 0 for head in found]
        return [Append(COUNTER, id, CounterSet(value + 1)) for id, value in zip(ids, values, strict=True)]

    await ledger.commit(count("c7", 10))
    other = await backend.open()
    for each in (ledger, other, ledger):
        await each.commit(write(COUNTER, ids[0], decide, reads=[(COUNTER, id) for id in ids[1:]]))

    heads = await ledger.heads(COUNTER, TENANT, ids)
    assert len(heads) == 1000
    assert {id: head.value and head.value.value for id, head in heads.items()} == {
        id: 13 if id == "c7" else 3 for id in ids
    }
