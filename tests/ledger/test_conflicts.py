"""With several writers on one store no update is lost, and no decision is based on an old head."""

import asyncio

import pytest

from hivemem_contracts.errors import NotFound, RevisionConflict
from hivemem_runtime.ledger.port import Append, Decision, Heads, Ledger, Write

from .backends import Backend, within
from .entities import COUNTER, NOTE, CounterHead, CounterSet
from .writes import TENANT, Told, count, edit, transfer, value_of, write


@pytest.fixture
async def other(backend: Backend) -> Ledger:
    """A second process on the same store."""
    return await backend.open()


async def test_two_processes_that_write_one_key_by_turns_continue_each_other(ledger: Ledger, other: Ledger) -> None:
    outcomes = [await (ledger, other)[turn % 2].commit(edit("n", add=2**turn)) for turn in range(20)]

    assert [outcome.stamp and outcome.stamp.version for outcome in outcomes] == list(range(1, 21))
    assert outcomes[-1].head.total == 2**20 - 1
    times = [outcome.stamp.at for outcome in outcomes if outcome.stamp]
    assert times == sorted(set(times))


async def test_fifty_tasks_on_one_key_at_two_processes_lose_no_update(ledger: Ledger, other: Ledger) -> None:
    async def work(number: int) -> None:
        for _ in range(10):
            await (ledger, other)[number % 2].commit(count("c"))

    await within(asyncio.gather(*[work(number) for number in range(50)]))

    head = await ledger.head(COUNTER, TENANT, "c")
    assert head
    assert (head.version, head.value) == (500, CounterHead(500, ""))
    records = await ledger.history(COUNTER, TENANT, "c", limit=1000)
    assert [record.value.value for record in records] == list(range(1, 501))
    times = [record.stamp.at for record in records]
    assert times == sorted(set(times))


async def test_fifty_keys_at_two_processes_lose_no_update(ledger: Ledger, other: Ledger) -> None:
    queued = [
        (ledger, other)[(number + turn) % 2].commit(count(f"c{number}")) for turn in range(10) for number in range(50)
    ]
    await within(asyncio.gather(*queued))

    heads = await other.heads(COUNTER, TENANT, [f"c{number}" for number in range(50)])
    assert [(head.version, head.value) for head in heads.values()] == [(10, CounterHead(10, ""))] * 50


async def test_one_of_many_that_expect_the_same_version_wins(ledger: Ledger, other: Ledger) -> None:
    for expected in range(5):
        queued = [(ledger, other)[number % 2].commit(count("c", expect=expected)) for number in range(10)]
        outcomes = await within(asyncio.gather(*queued, return_exceptions=True))

        assert sum(not isinstance(outcome, BaseException) for outcome in outcomes) == 1
        refusals = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
        assert all(isinstance(refusal, RevisionConflict) for refusal in refusals)


async def test_expected_version_that_another_process_made_is_no_conflict(ledger: Ledger, other: Ledger) -> None:
    """A cached head must not cause a conflict for a caller that knows a newer version."""
    await ledger.commit(count("c"))
    for expected in range(1, 11):
        writer = (other, ledger)[expected % 2]
        assert (await writer.commit(count("c", expect=expected))).head == CounterHead(expected + 1, "")


async def test_key_that_another_process_created_is_there_for_the_next_decision(ledger: Ledger, other: Ledger) -> None:
    with pytest.raises(NotFound):
        await ledger.commit(transfer("c", "d", 1))
    await other.commit(count("c", 1))

    assert (await ledger.commit(transfer("c", "d", 1))).head == CounterHead(0, "")


async def test_decision_to_do_nothing_rests_on_the_newest_head(ledger: Ledger, other: Ledger) -> None:
    def double_unless_zero(heads: Heads, now: int) -> Decision:
        value = value_of(heads, "c")
        return [Append(COUNTER, "c", CounterSet(value * 2))] if value else []

    await ledger.commit(count("c", 0))
    await other.commit(count("c", 5))

    assert (await ledger.commit(write(COUNTER, "c", double_unless_zero))).head == CounterHead(10, "")


async def test_refusal_with_other_writes_in_the_batch_rests_on_the_newest_head(ledger: Ledger, other: Ledger) -> None:
    await asyncio.gather(*[ledger.commit(count(id)) for id in ("c", "d", "e")])
    await other.commit(count("c"))

    queued = [ledger.commit(count("d")), ledger.commit(count("c", expect=2)), ledger.commit(count("e"))]
    outcomes = await within(asyncio.gather(*queued))

    assert [outcome.head.value for outcome in outcomes] == [2, 3, 2]


def _guarded(target: str, guard: str) -> Write:
    """Increment one counter only while another one is zero."""

    def decide(heads: Heads, now: int) -> Decision:
        if value_of(heads, guard):
            raise NotFound(f"{guard} is taken")
        return [Append(COUNTER, target, CounterSet(value_of(heads, target) + 1))]

    return write(COUNTER, target, decide)


async def test_head_that_a_decision_reads_without_writing_it_is_the_newest(ledger: Ledger, other: Ledger) -> None:
    await ledger.commit(count("guard", 0))
    await ledger.commit(_guarded("c", "guard"))
    await other.commit(count("guard", 1))

    with pytest.raises(NotFound):
        await ledger.commit(_guarded("c", "guard"))

    await other.commit(count("guard", -1))
    assert (await ledger.commit(_guarded("c", "guard"))).head == CounterHead(2, "")


async def test_absent_head_that_a_decision_reads_is_absent_when_it_commits(ledger: Ledger, other: Ledger) -> None:
    await ledger.commit(_guarded("c", "guard"))
    await other.commit(count("guard", 1))

    with pytest.raises(NotFound):
        await ledger.commit(_guarded("c", "guard"))


@pytest.mark.parametrize("made", [True, False], ids=["that-are-there", "that-were-never-written"])
async def test_decisions_that_read_each_others_keys_never_both_pass(ledger: Ledger, other: Ledger, made: bool) -> None:
    """Two processes each take one of two seats, on condition that the other seat is free."""
    pairs = [(f"left-{number}", f"right-{number}") for number in range(40)]
    if made:
        await asyncio.gather(*[ledger.commit(count(id, 0)) for pair in pairs for id in pair])
    queued = [
        write
        for left, right in pairs
        for write in (ledger.commit(_guarded(left, right)), other.commit(_guarded(right, left)))
    ]
    outcomes = await within(asyncio.gather(*queued, return_exceptions=True))

    taken = await ledger.heads(COUNTER, TENANT, [id for pair in pairs for id in pair])
    free = CounterHead(0, "")
    assert [sum(id in taken and taken[id].value != free for id in pair) for pair in pairs] == [1] * 40
    assert sum(isinstance(outcome, NotFound) for outcome in outcomes) == 40


async def test_transfers_between_many_keys_at_two_processes_keep_the_sum(ledger: Ledger, other: Ledger) -> None:
    ids = [f"account-{number}" for number in range(6)]
    await asyncio.gather(*[ledger.commit(count(id, 100)) for id in ids])
    queued = [
        (ledger, other)[number % 2].commit(transfer(ids[number % 6], ids[(number * 5 + 1 + number // 6) % 6], 7))
        for number in range(240)
        if number % 6 != (number * 5 + 1 + number // 6) % 6
    ]
    outcomes = await within(asyncio.gather(*queued, return_exceptions=True))

    assert all(not isinstance(outcome, BaseException) or isinstance(outcome, NotFound) for outcome in outcomes)
    for each in (ledger, other):
        heads = await each.heads(COUNTER, TENANT, ids)
        assert sum(head.value.value for head in heads.values() if head.value) == 600
        assert all(head.value.value >= 0 for head in heads.values() if head.value)


async def test_crowd_at_two_processes_keeps_the_order_of_each_caller(ledger: Ledger, other: Ledger) -> None:
    """Each caller queues its edits without waiting; they appear in its order, mixed with edits of others."""
    queued = [
        each.commit(edit("n", f"{name}-{number}", add=1, told=Told(once=f"{name}-{number}")))
        for number in range(100)
        for name, each in (("left", ledger), ("right", other))
    ]
    await within(asyncio.gather(*queued))

    texts = [record.value.text or "" for record in await ledger.history(NOTE, TENANT, "n", limit=1000)]
    assert len(texts) == 200
    for name in ("left", "right"):
        mine = [text for text in texts if text.startswith(name)]
        assert mine == [f"{name}-{number}" for number in range(100)]
