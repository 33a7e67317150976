"""One request id means one command: another command under the same id is always refused."""

import asyncio

import pytest

from hivemem_contracts.errors import IdempotencyConflict, NotFound, RevisionConflict
from hivemem_runtime.ledger.port import Ledger, RequestId, Write

from .backends import Backend, within
from .entities import COUNTER, GAUGE, NOTE
from .waiting import announce_all
from .writes import TENANT, Told, count, edit, gauge, nothing

FIRST = Told(request_id="r1", digest=b"first")
OTHER = Told(request_id="r1", digest=b"other")
WHOLE, ANOTHER = RequestId("whole", b"first"), RequestId("whole", b"other")


async def refused(ledger: Ledger, *writes: Write) -> None:
    queued = [ledger.commit(write) for write in writes]
    for outcome in await within(asyncio.gather(*queued, return_exceptions=True)):
        assert isinstance(outcome, IdempotencyConflict), outcome
        assert outcome.context == {"field": "Nats-Msg-Id"}


async def test_another_command_under_the_id_is_refused_and_does_nothing(backend: Backend, ledger: Ledger) -> None:
    first = await ledger.commit(count("c", told=FIRST))

    for each in (ledger, await backend.open()):
        await refused(each, count("c", told=OTHER), count("d", told=OTHER), gauge("g", told=OTHER))
        again = await each.commit(count("c", told=FIRST))
        assert (again.duplicate, again.stamp) == (True, first.stamp)
        assert await each.head(COUNTER, TENANT, "d") is None
        assert await each.head(GAUGE, TENANT, "g") is None


async def test_another_command_in_the_same_batch_is_refused(ledger: Ledger) -> None:
    first, other, again = [ledger.commit(count("c", told=told)) for told in (FIRST, OTHER, FIRST)]

    assert not (await first).duplicate
    assert (await again).duplicate
    with pytest.raises(IdempotencyConflict):
        await other


async def test_two_commands_that_race_at_two_processes_are_not_both_done(backend: Backend, ledger: Ledger) -> None:
    other = await backend.open()
    queued = [each.commit(count("c", told=told)) for each, told in ((ledger, FIRST), (other, OTHER))]

    outcomes = await within(asyncio.gather(*queued, return_exceptions=True))

    assert sum(isinstance(outcome, IdempotencyConflict) for outcome in outcomes) == 1
    assert len(await ledger.history(COUNTER, TENANT, "c", limit=9)) == 1


async def test_what_is_kept_without_history_remembers_the_command_too(ledger: Ledger) -> None:
    await ledger.commit(gauge("g", told=FIRST))

    await refused(ledger, gauge("g", told=OTHER))
    assert (await ledger.commit(gauge("g", told=FIRST))).duplicate


async def test_a_command_that_found_nothing_to_do_is_remembered(ledger: Ledger) -> None:
    await ledger.commit(nothing("c", told=FIRST))

    await refused(ledger, count("c", told=OTHER))
    assert (await ledger.commit(nothing("c", told=FIRST))).duplicate


async def test_a_refused_command_is_not_remembered(ledger: Ledger) -> None:
    with pytest.raises(RevisionConflict):
        await ledger.commit(count("c", expect=7, told=FIRST))

    assert not (await ledger.commit(count("c", told=OTHER))).duplicate


async def test_a_refusal_does_not_hide_that_the_id_is_taken(backend: Backend, ledger: Ledger) -> None:
    other = await backend.open()
    await other.head(COUNTER, TENANT, "c")
    await ledger.commit(count("c", told=FIRST))

    await refused(other, count("c", expect=7, told=OTHER))


async def test_without_a_digest_any_command_matches(ledger: Ledger) -> None:
    await ledger.commit(count("c", told=Told(request_id="r1")))
    await ledger.commit(count("d", told=Told(request_id="r2", digest=b"first")))

    assert (await ledger.commit(count("c", told=FIRST))).duplicate
    assert (await ledger.commit(count("d", told=Told(request_id="r2")))).duplicate


async def test_erasure_forgets_the_digest_and_keeps_the_id_spent(backend: Backend, ledger: Ledger) -> None:
    for write in (count("c", told=FIRST), gauge("g", told=Told(request_id="r2", digest=b"first"))):
        await ledger.commit(write)
        await announce_all(ledger)
        await ledger.erase(write.entity, TENANT, write.id, actor="eve", cause=None)
        await announce_all(ledger)

    again = await backend.reopen(ledger)
    for told in (FIRST, OTHER, Told(request_id="r2", digest=b"other")):
        with pytest.raises(NotFound):
            await again.commit(count("d", told=told))


async def test_event_ids_do_not_look_at_the_command(ledger: Ledger) -> None:
    await ledger.commit(count("c", told=Told(request_id="r1", digest=b"first", once="o1")))

    assert (await ledger.commit(count("c", told=Told(request_id="r2", digest=b"other", once="o1")))).duplicate


LASTING = Told(request_id="e1", digest=b"first", as_long_as_key=True)


async def test_a_lasting_id_answers_until_its_key_is_erased(backend: Backend, ledger: Ledger) -> None:
    await ledger.commit(edit("n", "first", told=LASTING))

    for each in (ledger, await backend.open()):
        assert (await each.commit(edit("n", "again", told=LASTING))).duplicate
        await refused(each, edit("m", told=Told(request_id="e1", digest=b"other", as_long_as_key=True)))
    again = await backend.open()
    await announce_all(again)
    await again.erase(NOTE, TENANT, "n", actor="eve", cause=None)
    await announce_all(again)
    assert not (await again.commit(edit("n", "anew", told=LASTING))).duplicate


async def test_a_lasting_id_answers_for_its_key_alone(backend: Backend, ledger: Ledger) -> None:
    first = await ledger.commit(edit("n", "first", told=LASTING))

    for number, each in enumerate((ledger, await backend.open())):
        told = Told(request_id=f"r{number}", once="e1", answered_by="e1")
        again = await each.commit(edit("n", "again", told=told))
        assert (again.duplicate, again.stamp) == (True, first.stamp)
        assert not (await each.commit(edit(f"m{number}", told=told))).duplicate
    last = await backend.open()
    in_one_batch = [
        last.commit(edit("n", told=Told(request_id="e2", as_long_as_key=True))),
        last.commit(edit("n", told=Told(answered_by="e2"))),
        last.commit(edit("o", told=Told(answered_by="e2"))),
    ]
    assert [(await outcome).duplicate for outcome in in_one_batch] == [False, True, False]


async def test_parts_of_another_command_are_refused_all_of_them(backend: Backend, ledger: Ledger) -> None:
    def part(number: int, whole: RequestId, expect: int | None = None) -> Write:
        own = Told(request_id=f"whole#{number}", digest=whole.digest, part_of=whole)
        return count(f"c{number}", expect=expect, told=own)

    with pytest.raises(RevisionConflict):
        await ledger.commit(part(0, ANOTHER, 7))
    await ledger.commit(part(1, WHOLE))

    for each in (ledger, await backend.open()):
        await refused(each, part(0, ANOTHER), part(1, ANOTHER), part(2, ANOTHER))
    again = await backend.open()
    repeated = [again.commit(part(number, WHOLE)) for number in range(3)]
    assert [(await outcome).duplicate for outcome in repeated] == [False, True, False]


async def test_parts_outlive_the_key_that_the_first_was_of(backend: Backend, ledger: Ledger) -> None:
    own = [Told(request_id=f"whole#{number}", part_of=WHOLE) for number in range(2)]
    await ledger.commit(count("c0", told=own[0]))
    await announce_all(ledger)
    await ledger.erase(COUNTER, TENANT, "c0", actor="eve", cause=None)
    await announce_all(ledger)

    again = await backend.reopen(ledger)
    assert not (await again.commit(count("c1", told=own[1]))).duplicate
