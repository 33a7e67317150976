"""An erasure spends the request ids of the erased records, so a late copy of a request writes nothing."""

import asyncio

import pytest

from hivemem_contracts.errors import NotFound
from hivemem_runtime.ledger.entity import AnyEntity
from hivemem_runtime.ledger.port import Append, Decision, Heads, Ledger, Outcome, Write

from .backends import Backend
from .clock import SECOND, ManualClock
from .entities import COUNTER, NOTE, CounterSet, NoteEdited
from .waiting import announce_all
from .writes import TENANT, Told, count, edit, note_and_count, nothing, write


async def _erase(ledger: Ledger, *others: Ledger, entity: AnyEntity = NOTE, id: str = "n", keep: int = 0) -> None:
    await announce_all(ledger, *others)
    assert await ledger.erase(entity, TENANT, id, actor="eve", cause="gdpr", keep_through_position=keep)
    await announce_all(ledger, *others)


async def _refused(ledger: Ledger, late: Write) -> None:
    with pytest.raises(NotFound, match="erased") as refusal:
        await ledger.commit(late)
    assert refusal.value.context == {"entity": "note", "erased": True}


async def test_late_copy_of_a_request_is_refused_after_the_erasure(backend: Backend, ledger: Ledger) -> None:
    other = await backend.open()
    late = edit("n", "first", told=Told(request_id="r", once="o"))
    await ledger.commit(edit("n", "before"))
    await ledger.commit(late)
    await _erase(ledger, other)

    for each in (ledger, other, await backend.open()):
        await _refused(each, late)
        await _refused(each, edit("another id, made up anew", "first", told=Told(request_id="r")))
        await _refused(each, count("c", told=Told(request_id="r")))
    head = await ledger.head(NOTE, TENANT, "n")
    assert head
    assert (head.version, head.value) == (3, None)
    assert await ledger.head(COUNTER, TENANT, "c") is None


async def test_late_copy_does_not_disturb_what_is_written_with_it(ledger: Ledger) -> None:
    late = edit("n", "first", told=Told(request_id="r"))
    await ledger.commit(late)
    await _erase(ledger)

    queued = [ledger.commit(each) for each in (edit("n", "anew"), late, edit("n", "and on"), late, count("c"))]
    outcomes = await asyncio.gather(*queued, return_exceptions=True)

    assert [type(outcome) for outcome in outcomes] == [Outcome, NotFound, Outcome, NotFound, Outcome]
    assert [record.value.text for record in await ledger.history(NOTE, TENANT, "n", limit=9)] == ["anew", "and on"]


async def test_new_request_and_event_ids_write_to_the_erased_key(ledger: Ledger) -> None:
    """An event id belongs to the key and is freed with it; a request id is spent for good."""
    await ledger.commit(edit("n", "first", told=Told(request_id="r", once="o")))
    await _erase(ledger)

    outcome = await ledger.commit(edit("n", "anew", told=Told(request_id="new", once="o")))

    assert (outcome.duplicate, outcome.record.text) == (False, "anew")
    await _refused(ledger, edit("n", "first", told=Told(request_id="r", once="o")))
    assert (await ledger.commit(edit("n", "again", told=Told(once="o")))).stamp == outcome.stamp


async def test_requests_of_other_keys_are_answered_as_before(ledger: Ledger) -> None:
    kept = [
        await ledger.commit(count("c", told=Told(request_id="other", once="o"))),
        await ledger.commit(edit("n2", told=Told(request_id="note", once="o"))),
        await ledger.commit(edit("n", told=Told(tenant="zeta", request_id="r", once="o"))),
    ]
    await ledger.commit(edit("n", "first", told=Told(request_id="r", once="o")))
    await _erase(ledger)

    again = [
        await ledger.commit(count("c", told=Told(request_id="other"))),
        await ledger.commit(edit("n2", told=Told(request_id="note"))),
        await ledger.commit(edit("n", told=Told(tenant="zeta", request_id="r"))),
    ]
    assert [(each.duplicate, each.stamp) for each in again] == [(True, each.stamp) for each in kept]
    assert (await ledger.commit(count("c", told=Told(once="o")))).stamp == kept[0].stamp


async def test_retry_of_a_write_on_two_keys_outlives_the_erasure_of_the_second(ledger: Ledger) -> None:
    """The retry is answered from the first record, which still exists."""
    told = Told(request_id="r", once="o")
    first = await ledger.commit(note_and_count("n", "c", "both", told=told))
    await _erase(ledger, entity=COUNTER, id="c")

    for kept in (Told(request_id="r"), Told(once="o")):
        again = await ledger.commit(note_and_count("n", "c", "both", told=kept))
        assert again.duplicate
        assert again.stamp == first.stamp
    assert await ledger.history(COUNTER, TENANT, "c", limit=9) == []


async def test_retry_of_a_write_on_two_keys_is_refused_after_the_erasure_of_the_first(ledger: Ledger) -> None:
    late = note_and_count("n", "c", "both", told=Told(request_id="r"))
    await ledger.commit(late)
    await _erase(ledger)

    await _refused(ledger, late)
    heads = await ledger.heads(COUNTER, TENANT, ["c"])
    assert heads["c"].version == 1


async def test_once_of_another_key_goes_with_the_record_that_answers_it(ledger: Ledger) -> None:
    def decide(heads: Heads, now: int) -> Decision:
        return [Append(NOTE, "n", NoteEdited(add=1)), Append(COUNTER, "c", CounterSet(7))]

    await ledger.commit(write(COUNTER, "c", decide, Told(once="o")))
    await _erase(ledger)

    assert (await ledger.commit(write(COUNTER, "c", decide, Told(once="o")))).duplicate is False


@pytest.mark.parametrize("keep", [0, 2])
@pytest.mark.parametrize("frozen", [0, 3, 6])
async def test_requests_of_cold_and_of_shared_records_are_spent_too(
    backend: Backend, ledger: Ledger, frozen: int, keep: int
) -> None:
    late = [
        edit("n", f"{number}", line=True, told=Told(request_id=f"r{number}", once=f"o{number}")) for number in range(6)
    ]
    for each in late:
        await ledger.commit(each)
    await announce_all(ledger)
    await ledger.freeze(NOTE, TENANT, "n", frozen, limit=2)
    await ledger.freeze(NOTE, TENANT, "n", frozen, limit=100)
    await _erase(ledger, keep=keep)

    for each in late:
        await _refused(ledger, each)
    again = await backend.reopen(ledger)
    for number, each in enumerate(late):
        await _refused(again, each)
        assert (await again.commit(edit("n", told=Told(once=f"o{number}")))).duplicate is False


async def test_spent_request_stays_spent_through_a_new_life_and_its_erasure(ledger: Ledger) -> None:
    first, second = (edit("n", told=Told(request_id=name)) for name in ("first", "second"))
    await ledger.commit(first)
    await _erase(ledger)
    await ledger.commit(second)
    await _refused(ledger, first)
    await _erase(ledger)

    await _refused(ledger, first)
    await _refused(ledger, second)


@pytest.mark.parametrize("frozen", [False, True], ids=["hot", "cold"])
async def test_spent_request_is_forgotten_with_the_others_of_its_age(
    backend: Backend, clock: ManualClock, frozen: bool
) -> None:
    ledger = await backend.open(request_memory_seconds=600)
    late = edit("n", "first", told=Told(request_id="r"))
    await ledger.commit(late)
    await announce_all(ledger)
    if frozen:
        await ledger.freeze(NOTE, TENANT, "n", 1, limit=9)
    clock.advance(300 * SECOND)
    await _erase(ledger)

    clock.advance(299 * SECOND)
    await backend.store.forget_requests(ledger, clock.now)
    await _refused(ledger, late)

    clock.advance(2 * SECOND)
    await backend.store.forget_requests(ledger, clock.now)
    outcome = await ledger.commit(late)
    assert (outcome.duplicate, outcome.record.text) == (False, "first")


@pytest.mark.parametrize("frozen", [False, True], ids=["hot", "cold"])
async def test_forgotten_id_that_was_used_again_elsewhere_is_not_spent(
    backend: Backend, clock: ManualClock, frozen: bool
) -> None:
    """A record's request id no longer counts once another request uses the id."""
    ledger = await backend.open(request_memory_seconds=600)
    await ledger.commit(edit("n", "first", told=Told(request_id="r")))
    await announce_all(ledger)
    if frozen:
        await ledger.freeze(NOTE, TENANT, "n", 1, limit=9)
    clock.advance(601 * SECOND)
    await backend.store.forget_requests(ledger, clock.now)
    kept = await ledger.commit(edit("n2", "second", told=Told(request_id="r")))
    await _erase(ledger)

    assert (await ledger.commit(edit("n2", "second", told=Told(request_id="r")))).stamp == kept.stamp


async def test_request_that_found_nothing_to_do_wrote_nothing_that_could_be_erased(ledger: Ledger) -> None:
    await ledger.commit(count("c"))
    await ledger.commit(nothing("c", told=Told(request_id="r")))
    await _erase(ledger, entity=COUNTER, id="c")

    outcome = await ledger.commit(nothing("c", told=Told(request_id="r")))

    assert outcome.stamp is None
