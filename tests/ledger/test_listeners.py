"""Listeners get every commit, in order, before its caller gets the outcome."""

import asyncio
import threading
from collections.abc import Sequence

from hivemem_runtime.ledger.port import Committed, Ledger

from .backends import Backend, within
from .entities import COUNTER, NOTE, CounterHead, CounterSet
from .writes import TENANT, Told, count, edit, note_and_count, nothing


async def test_listener_hears_each_record_whole_and_before_its_writer(ledger: Ledger) -> None:
    heard: list[Committed] = []
    ledger.on_commit(heard.extend)

    outcome = await ledger.commit(note_and_count("n", "c", "both", told=Told(cause="m")))

    note, counter = heard
    assert (note.entity, note.stamp, note.record, note.head) == (NOTE, outcome.stamp, outcome.record, outcome.head)
    assert (counter.entity, counter.record, counter.head) == (COUNTER, CounterSet(1), CounterHead(1, ""))
    assert (counter.stamp.id, counter.stamp.version, counter.stamp.cause) == ("c", 1, "m")
    assert (note.announced, note.erased) == (0, False)
    assert (counter.announced, counter.erased) == (0, False)


async def test_all_listeners_hear_the_batches_in_commit_order_on_the_loop(ledger: Ledger) -> None:
    loop_thread = threading.get_ident()
    first: list[tuple[str, int]] = []
    second: list[tuple[str, int]] = []
    threads: set[int] = set()
    done: list[int] = []
    late: list[str] = []

    def listen(batch: Sequence[Committed]) -> None:
        threads.add(threading.get_ident())
        first.extend((committed.stamp.id, committed.stamp.version) for committed in batch)

    ledger.on_commit(listen)
    ledger.on_commit(lambda batch: second.extend((each.stamp.id, each.stamp.version) for each in batch))

    async def work(number: int) -> None:
        outcome = await ledger.commit(count(f"c{number % 5}", told=Told(cause=f"{number}")))
        done.append(number)
        assert outcome.stamp
        if (outcome.stamp.id, outcome.stamp.version) not in first:
            late.append(outcome.stamp.id)

    await asyncio.gather(*[work(number) for number in range(400)])

    assert late == []
    assert len(first) == 400
    assert first == second
    for key in range(5):
        assert [version for id, version in first if id == f"c{key}"] == list(range(1, 81))
    assert threads == {loop_thread}


async def test_listener_hears_nothing_of_what_was_refused_repeated_or_empty(ledger: Ledger) -> None:
    heard: list[Committed] = []
    ledger.on_commit(heard.extend)
    queued = [
        ledger.commit(count("c", told=Told(request_id="r"))),
        ledger.commit(count("c", told=Told(request_id="r"))),
        ledger.commit(count("c", expect=9)),
        ledger.commit(nothing("c")),
    ]
    await within(asyncio.gather(*queued, return_exceptions=True))

    assert [(each.stamp.id, each.stamp.version) for each in heard] == [("c", 1)]


async def test_listener_hears_what_its_own_ledger_committed_and_no_more(backend: Backend, ledger: Ledger) -> None:
    other = await backend.open()
    heard: list[Committed] = []
    ledger.on_commit(heard.extend)

    await asyncio.gather(*[(ledger, other)[number % 2].commit(edit("n", add=number)) for number in range(60)])

    assert len(heard) == 30
    assert [each.record.add for each in heard] == list(range(0, 60, 2))
    versions = [each.stamp.version for each in heard]
    assert versions == sorted(versions)
    for each in heard:
        record = await other.record(NOTE, TENANT, "n", each.stamp.version)
        assert record
        assert (record.stamp, record.value) == (each.stamp, each.record)


async def test_listener_with_a_fault_keeps_no_writer_waiting(ledger: Ledger) -> None:
    """Durable writes are acknowledged, and the event loop reports the listener's error."""
    reported: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: reported.append(context.get("exception")))

    def fail(batch: Sequence[Committed]) -> None:
        raise ZeroDivisionError("a fault of the listener")

    ledger.on_commit(fail)

    outcomes = await within(asyncio.gather(*[ledger.commit(count("c")) for _ in range(5)]))
    outcomes += [await within(ledger.commit(count("c")))]

    assert [outcome.head.value for outcome in outcomes] == [1, 2, 3, 4, 5, 6]
    assert {type(each) for each in reported} == {ZeroDivisionError}
