"""A repeated write adds nothing and gets the first outcome."""

import asyncio

import pytest

from hivemem_contracts.errors import NotFound
from hivemem_runtime.ledger.port import Append, Decision, Heads, Ledger, Outcome

from .backends import Backend, within
from .clock import SECOND, ManualClock
from .entities import COUNTER, NOTE, CounterHead, CounterSet, NoteEdited
from .waiting import announce_all
from .writes import TENANT, Told, count, edit, note_and_count, nothing, transfer, write


def same(again: Outcome, first: Outcome) -> bool:
    return again.duplicate and again.stamp == first.stamp and again.record == first.record and again.head is None


@pytest.mark.parametrize("told", [Told(request_id="r1"), Told(once="o1"), Told(request_id="r1", once="o1")])
async def test_retried_write_answers_the_first_outcome(ledger: Ledger, told: Told) -> None:
    first = await ledger.commit(edit("n", "first", add=1, told=told))
    await ledger.commit(edit("n", "between", add=10))

    again = await ledger.commit(edit("n", "again", add=100, told=told))

    assert same(again, first)
    head = await ledger.head(NOTE, TENANT, "n")
    assert head
    assert head.value
    assert (head.version, head.value.total) == (2, 11)


@pytest.mark.parametrize("told", [Told(request_id="r1"), Told(once="o1")])
async def test_retry_in_the_same_batch_is_a_duplicate(ledger: Ledger, told: Told) -> None:
    queued = [ledger.commit(count("c", told=told)) for _ in range(20)]

    outcomes = await within(asyncio.gather(*queued))

    assert outcomes[0].head == CounterHead(1, "")
    assert all(same(outcome, outcomes[0]) for outcome in outcomes[1:])
    assert len(await ledger.history(COUNTER, TENANT, "c", limit=9)) == 1


@pytest.mark.parametrize("told", [Told(request_id="r1"), Told(once="o1")])
async def test_retry_after_a_restart_is_a_duplicate(backend: Backend, ledger: Ledger, told: Told) -> None:
    first = await ledger.commit(count("c", told=told))

    again = await backend.reopen(ledger)

    assert same(await again.commit(count("c", told=told)), first)
    assert await again.record(COUNTER, TENANT, "c", 2) is None


@pytest.mark.parametrize("told", [Told(request_id="r1"), Told(once="o1")])
async def test_retry_at_another_process_is_a_duplicate(backend: Backend, ledger: Ledger, told: Told) -> None:
    other = await backend.open()
    await other.commit(count("c"))
    first = await ledger.commit(count("c", told=told))

    assert same(await other.commit(count("c", told=told)), first)
    assert same(await ledger.commit(count("c", told=told)), first)
    assert (await other.commit(count("c"))).head == CounterHead(3, "")


@pytest.mark.parametrize("told", [Told(request_id="r1"), Told(once="o1")])
async def test_retries_that_race_at_two_processes_are_applied_once(
    backend: Backend, ledger: Ledger, told: Told
) -> None:
    other = await backend.open()
    queued = [each.commit(count("c", told=told)) for _ in range(10) for each in (ledger, other)]

    outcomes = await within(asyncio.gather(*queued))

    assert sum(not outcome.duplicate for outcome in outcomes) == 1
    assert len({outcome.stamp for outcome in outcomes}) == 1
    assert len(await ledger.history(COUNTER, TENANT, "c", limit=9)) == 1


async def test_request_that_made_up_an_id_is_the_same_on_another_key(backend: Backend, ledger: Ledger) -> None:
    """A create without an id generates a new one per attempt, so the request id applies across keys."""
    other = await backend.open()
    first = await ledger.commit(count("made-up-1", told=Told(request_id="create")))

    assert same(await ledger.commit(count("made-up-2", told=Told(request_id="create"))), first)
    assert same(await other.commit(count("made-up-3", told=Told(request_id="create"))), first)
    assert same(await other.commit(edit("made-up-4", "a note", told=Told(request_id="create"))), first)
    assert set(await other.heads(COUNTER, TENANT, [f"made-up-{number}" for number in range(9)])) == {"made-up-1"}


async def test_request_that_races_on_two_keys_is_applied_once(backend: Backend, ledger: Ledger) -> None:
    other = await backend.open()

    for number in range(10):
        told = Told(request_id=f"create-{number}")
        queued = [
            ledger.commit(count(f"left-{number}", told=told)),
            other.commit(count(f"right-{number}", told=told)),
        ]
        left, right = await within(asyncio.gather(*queued))

        assert left.stamp == right.stamp
        assert sorted([left.duplicate, right.duplicate]) == [False, True]
        assert len(await ledger.heads(COUNTER, TENANT, [f"left-{number}", f"right-{number}"])) == 1


async def test_request_ids_of_other_tenants_are_others(ledger: Ledger) -> None:
    await ledger.commit(count("c", told=Told(request_id="r")))

    theirs = await ledger.commit(count("c", 5, told=Told(tenant="zeta", request_id="r")))

    assert theirs.duplicate is False
    assert theirs.head == CounterHead(5, "")


async def test_once_of_other_keys_is_another(ledger: Ledger) -> None:
    told = Told(once="event-1")
    queued = [
        ledger.commit(count("c", told=told)),
        ledger.commit(count("d", told=told)),
        ledger.commit(edit("c", "a note", told=told)),
        ledger.commit(count("c", told=Told(tenant="zeta", once="event-1"))),
    ]

    assert [outcome.duplicate for outcome in await asyncio.gather(*queued)] == [False] * 4


async def test_once_and_request_id_of_the_same_text_are_two_things(ledger: Ledger) -> None:
    await ledger.commit(count("c", told=Told(request_id="x")))

    assert (await ledger.commit(count("c", told=Told(once="x")))).duplicate is False


@pytest.mark.parametrize("told", [Told(request_id="r1"), Told(once="o1")])
async def test_refused_write_may_be_tried_again_with_the_same_id(ledger: Ledger, told: Told) -> None:
    queued = [
        ledger.commit(transfer("c", "d", 3, told=told)),
        ledger.commit(count("c", 5)),
        ledger.commit(transfer("c", "d", 3, told=told)),
        ledger.commit(transfer("c", "d", 3, told=told)),
    ]
    refused, _, moved, again = await within(asyncio.gather(*queued, return_exceptions=True))

    assert isinstance(refused, NotFound)
    assert moved.head == CounterHead(2, "")
    assert same(again, moved)


async def test_new_request_with_a_known_once_is_a_duplicate(ledger: Ledger) -> None:
    first = await ledger.commit(count("c", told=Told(request_id="r1", once="o1")))

    assert same(await ledger.commit(count("c", told=Told(request_id="r2", once="o1"))), first)
    assert same(await ledger.commit(count("c", told=Told(request_id="r1", once="o2"))), first)
    assert (await ledger.commit(count("c", told=Told(request_id="r3", once="o3")))).duplicate is False


async def test_duplicate_does_not_ask_the_decision_again(ledger: Ledger) -> None:
    """A retry of a create must not learn that its id is taken."""
    told = Told(request_id="r")
    first = await ledger.commit(edit("n", "created", expect=0, told=told))

    assert same(await ledger.commit(edit("n", "created", expect=0, told=told)), first)


async def test_duplicate_of_a_write_on_many_keys_answers_its_first_record(ledger: Ledger) -> None:
    told = Told(request_id="r", once="o")
    first = await ledger.commit(note_and_count("n", "c", "both", told=told))

    again = await ledger.commit(note_and_count("n", "c", "both", told=told))

    assert same(again, first)
    assert again.record == NoteEdited(text="both", add=1, position=1, author="both")
    heads = await ledger.heads(COUNTER, TENANT, ["c"])
    assert heads["c"].value == CounterHead(1, "")


async def test_once_holds_where_the_first_record_is_of_another_key(ledger: Ledger) -> None:
    def decide(heads: Heads, now: int) -> Decision:
        return [Append(NOTE, "n", NoteEdited(add=1)), Append(COUNTER, "c", CounterSet(7))]

    first = await ledger.commit(write(COUNTER, "c", decide, Told(once="o")))
    again = await ledger.commit(write(COUNTER, "c", decide, Told(once="o")))

    assert same(again, first)
    assert again.stamp
    assert again.stamp.entity == "note"


async def test_request_that_found_nothing_to_do_stays_done(backend: Backend, ledger: Ledger) -> None:
    """A repeated delete that first found nothing must not delete a key created meanwhile."""
    told = Told(request_id="delete")
    await ledger.commit(nothing("c", told=told))
    await ledger.commit(count("c", 5))

    again = await ledger.commit(count("c", -5, told=told))
    again_later = await (await backend.reopen(ledger)).commit(count("c", -5, told=told))

    for outcome in (again, again_later):
        assert (outcome.duplicate, outcome.stamp, outcome.record, outcome.head) == (True, None, None, None)


async def test_duplicate_of_a_frozen_record_is_known(backend: Backend, ledger: Ledger) -> None:
    first = await ledger.commit(edit("n", "cold", add=1, told=Told(request_id="r", once="o")))
    for number in range(20):
        await ledger.commit(edit("n", f"{number}", add=1, told=Told(once=f"o{number}")))
    await announce_all(ledger)
    assert await ledger.freeze(NOTE, TENANT, "n", 15, limit=100) > 0
    again = await backend.reopen(ledger)

    assert same(await again.commit(edit("n", "cold", add=100, told=Told(once="o"))), first)
    assert same(await again.commit(edit("n", "cold", add=100, told=Told(request_id="r"))), first)
    assert same(await again.commit(edit("n", "cold", add=100, told=Told(request_id="new", once="o"))), first)


async def test_request_ids_are_remembered_as_long_as_promised(backend: Backend, clock: ManualClock) -> None:
    ledger = await backend.open(request_memory_seconds=600)
    told = Told(request_id="r", once="o")
    first = await ledger.commit(count("c", told=told))
    await backend.close(ledger)
    again = await backend.open(request_memory_seconds=600)
    clock.advance(599 * SECOND)
    await again.commit(count("other"))
    await backend.store.forget_requests(again, clock.now)

    assert same(await again.commit(count("c", told=Told(request_id="r"))), first)


async def test_request_ids_are_forgotten_in_the_end_and_once_is_not(backend: Backend, clock: ManualClock) -> None:
    ledger = await backend.open(request_memory_seconds=600)
    first = await ledger.commit(count("c", told=Told(request_id="r", once="o")))

    clock.advance(601 * SECOND)
    await backend.store.forget_requests(ledger, clock.now)

    assert (await ledger.commit(count("c", told=Told(request_id="r")))).duplicate is False
    assert same(await ledger.commit(count("c", told=Told(once="o"))), first)
