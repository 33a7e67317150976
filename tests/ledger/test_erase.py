"""An erasure leaves nothing but a fence, and nothing comes back below it."""

import asyncio

import pytest

from hivemem_contracts.errors import RevisionConflict, Unavailable
from hivemem_runtime.ledger.entity import Stamp
from hivemem_runtime.ledger.past import head_as_of, head_at
from hivemem_runtime.ledger.port import Append, Committed, Decision, Head, Heads, Ledger, Outcome

from .backends import Backend
from .clock import SECOND, ManualClock
from .entities import COUNTER, NOTE, CounterHead, CounterSet
from .waiting import FAR, announce_all, eventually
from .writes import TENANT, Told, count, edit, write


async def _erase(ledger: Ledger, id: str = "n", **asked: int) -> None:
    """Announce every commit, then erase the note without announcing the erasure."""
    await announce_all(ledger)
    await ledger.erase(NOTE, TENANT, id, actor="eve", cause="gdpr", **asked)


async def _lines(ledger: Ledger, many: int, id: str = "n") -> list[int]:
    outcomes = [await ledger.commit(edit(id, f"line {n}", add=n, line=True, board="red")) for n in range(1, many + 1)]
    return [outcome.stamp.at for outcome in outcomes if outcome.stamp]


@pytest.mark.parametrize("frozen", [0, 4, 7])
async def test_erased_key_leaves_a_fence_and_nothing_else(
    backend: Backend, ledger: Ledger, clock: ManualClock, frozen: int
) -> None:
    times = await _lines(ledger, 7)
    await announce_all(ledger)
    if frozen:
        await ledger.freeze(NOTE, TENANT, "n", frozen, limit=100)
    clock.advance()

    stamp = await ledger.erase(NOTE, TENANT, "n", actor="eve", cause="gdpr")

    assert stamp
    assert (stamp.tenant, stamp.entity, stamp.id, stamp.version) == (TENANT, "note", "n", 8)
    assert (stamp.actor, stamp.cause, stamp.at) == ("eve", "gdpr", clock.now)
    for each in (ledger, await backend.open()):
        assert await each.head(NOTE, TENANT, "n") == Head("n", 8, stamp.at, None)
        assert await each.heads(NOTE, TENANT, ["n"]) == {"n": Head("n", 8, stamp.at, None)}
        assert await each.history(NOTE, TENANT, "n", limit=100) == []
        assert await each.history(NOTE, TENANT, "n", limit=100, by_position=True) == []
        for version in range(1, 9):
            assert await each.record(NOTE, TENANT, "n", version) is None
            assert await head_at(each, NOTE, TENANT, "n", version) is None
        for at in (*times, stamp.at, stamp.at + SECOND):
            assert await head_as_of(each, NOTE, TENANT, "n", at) is None
        for index, equals in (("by_board", {"board": "red"}), ("recent", {})):
            assert (await each.find(NOTE, TENANT, index, equals=equals, limit=9)).items == []


async def test_other_keys_outlive_an_erasure(ledger: Ledger) -> None:
    await _lines(ledger, 3)
    await _lines(ledger, 3, "n2")
    await ledger.commit(edit("n", "theirs", told=Told(tenant="zeta")))
    await ledger.commit(count("n"))
    before = await ledger.history(NOTE, TENANT, "n2", limit=9)

    await _erase(ledger)

    assert await ledger.history(NOTE, TENANT, "n2", limit=9) == before
    assert len(await ledger.history(NOTE, "zeta", "n", limit=9)) == 1
    assert len(await ledger.history(COUNTER, TENANT, "n", limit=9)) == 1


async def test_a_key_at_another_version_is_left_alone(ledger: Ledger) -> None:
    await _lines(ledger, 3)
    await announce_all(ledger)
    with pytest.raises(RevisionConflict) as refused:
        await ledger.erase(NOTE, TENANT, "n", actor="eve", cause="gdpr", version=2)
    assert refused.value.context == {"expected": 2, "actual": 3}
    assert len(await ledger.history(NOTE, TENANT, "n", limit=100)) == 3

    stamp = await ledger.erase(NOTE, TENANT, "n", actor="eve", cause="gdpr", version=3)
    assert stamp is not None
    assert await ledger.erase(NOTE, TENANT, "n", actor="eve", cause="gdpr", version=3) == stamp


async def test_nothing_to_erase_answers_none(ledger: Ledger) -> None:
    assert await ledger.erase(NOTE, TENANT, "never", actor="eve", cause=None) is None
    assert await ledger.head(NOTE, TENANT, "never") is None
    await _lines(ledger, 1)
    await _erase(ledger)
    await announce_all(ledger)

    assert await ledger.erase(NOTE, TENANT, "n", actor="eve", cause=None) is None

    head = await ledger.head(NOTE, TENANT, "n")
    assert head
    assert head.version == 2
    assert await ledger.due(older_than=FAR, limit=9) == []


async def test_repeated_erasure_answers_the_first_one(backend: Backend, ledger: Ledger, clock: ManualClock) -> None:
    """A caller that missed the answer repeats the request and gets the same receipt."""
    told: list[Committed] = []
    await _lines(ledger, 3)
    await announce_all(ledger)
    ledger.on_commit(told.extend)

    first = await ledger.erase(NOTE, TENANT, "n", actor="eve", cause="gdpr")
    clock.advance()

    for each in (ledger, await backend.open()):
        assert await each.erase(NOTE, TENANT, "n", actor="eve", cause="gdpr") == first
        assert await each.erase(NOTE, TENANT, "n", actor="eve", cause="another") is None
        assert await each.erase(NOTE, TENANT, "n", actor="bo", cause="gdpr") is None
    assert [each.stamp for each in told] == [first]
    head = await ledger.head(NOTE, TENANT, "n")
    assert head
    assert head.version == 4


async def test_key_is_not_erased_before_all_of_it_is_announced(ledger: Ledger) -> None:
    await _lines(ledger, 3)
    before = await ledger.history(NOTE, TENANT, "n", limit=9)

    for announced in (0, 2):
        ledger.announced("note", TENANT, "n", announced)
        with pytest.raises(Unavailable):
            await ledger.erase(NOTE, TENANT, "n", actor="eve", cause=None)
        assert await ledger.history(NOTE, TENANT, "n", limit=9) == before

    ledger.announced("note", TENANT, "n", 3)
    assert await ledger.erase(NOTE, TENANT, "n", actor="eve", cause=None)


async def test_announcement_noted_at_one_process_lets_another_erase(backend: Backend, ledger: Ledger) -> None:
    other = await backend.open()
    await _lines(ledger, 3)
    ledger.announced("note", TENANT, "n", 3)

    async def erased() -> bool:
        try:
            return await other.erase(NOTE, TENANT, "n", actor="eve", cause=None) is not None
        except Unavailable:
            return False

    await eventually(erased, "the mark reaches the store")


async def test_erasure_is_told_to_listeners_and_due_until_it_is_announced(backend: Backend, ledger: Ledger) -> None:
    told: list[Committed] = []
    await _lines(ledger, 3)
    await announce_all(ledger)
    ledger.on_commit(told.extend)

    stamp = await ledger.erase(NOTE, TENANT, "n", actor="eve", cause="gdpr")

    assert [(each.stamp, each.record, each.head, each.announced, each.erased) for each in told] == [
        (stamp, None, None, 3, True)
    ]
    for each in (ledger, await backend.open()):
        (due,) = await each.due(older_than=FAR, limit=9)
        assert (due.tenant, due.entity, due.id) == (TENANT, "note", "n")
        assert (due.announced, due.version, due.erased, due.actor, due.cause) == (3, 4, True, "eve", "gdpr")
    await announce_all(ledger)
    assert await ledger.due(older_than=FAR, limit=9) == []


async def test_write_after_an_erasure_starts_anew_above_the_fence(backend: Backend, ledger: Ledger) -> None:
    other = await backend.open()
    await _lines(ledger, 5)
    await other.commit(edit("n", add=1))
    await _erase(ledger)
    await announce_all(ledger, other)

    outcome = await other.commit(edit("n", "anew", add=100, line=True, expect=0))
    again = await ledger.commit(edit("n", "more", add=1, line=True, expect=8))
    (due,) = await ledger.due(older_than=FAR, limit=9)
    assert (due.version, due.erased, due.actor, due.cause) == (9, False, "", None)

    assert outcome.stamp
    assert outcome.stamp.version == 8
    assert (outcome.head.total, outcome.head.board, outcome.head.trail) == (100, None, "8+100;")
    assert again.head.total == 101
    for each in (ledger, other, await backend.open()):
        records = await each.history(NOTE, TENANT, "n", limit=100)
        assert [record.stamp.version for record in records] == [8, 9]
        assert [record.value.text for record in records] == ["anew", "more"]
        head = await head_at(each, NOTE, TENANT, "n", 8)
        assert head
        assert head.value == outcome.head
        assert await head_at(each, NOTE, TENANT, "n", 9) == await each.head(NOTE, TENANT, "n")


async def test_decision_sees_the_fence_of_an_erased_key(ledger: Ledger) -> None:
    seen: list[Head[CounterHead] | None] = []

    def decide(heads: Heads, now: int) -> Decision:
        seen.append(heads(COUNTER, "c"))
        return [Append(COUNTER, "c", CounterSet(1))]

    await ledger.commit(write(COUNTER, "c", decide))
    await announce_all(ledger)
    stamp = await ledger.erase(COUNTER, TENANT, "c", actor="eve", cause=None)
    await announce_all(ledger)
    await ledger.commit(write(COUNTER, "c", decide))

    assert stamp
    assert seen[0] is None
    assert seen[-1] == Head("c", 2, stamp.at, None)


async def test_heads_of_a_recreated_key_are_right_at_each_version(ledger: Ledger) -> None:
    """Every fourth version has a snapshot, wherever the fence is."""
    for before in (1, 2, 3, 4):
        id = f"n{before}"
        await _lines(ledger, before, id)
        await _erase(ledger, id)
        await announce_all(ledger)
        outcomes = [await ledger.commit(edit(id, f"{number}", add=number)) for number in range(10)]
        for outcome in outcomes:
            assert outcome.stamp
            head = await head_at(ledger, NOTE, TENANT, id, outcome.stamp.version)
            assert head
            assert head.value == outcome.head
            assert await head_as_of(ledger, NOTE, TENANT, id, outcome.stamp.at) == head


async def test_recreated_key_does_not_hide_that_it_was_erased(backend: Backend, ledger: Ledger) -> None:
    """With newer records a sweep would never announce the erasure, so a write waits until it is announced."""
    other = await backend.open()
    await _lines(ledger, 3)
    await _erase(ledger)

    for each in (ledger, other):
        with pytest.raises(Unavailable):
            await each.commit(edit("n", "too early", told=Told(request_id="r")))
    (due,) = await ledger.due(older_than=FAR, limit=9)
    assert due.erased
    assert due.version == 4

    await announce_all(ledger)
    outcome = await ledger.commit(edit("n", "now", told=Told(request_id="r")))
    assert outcome.stamp
    assert outcome.stamp.version == 5


@pytest.mark.parametrize("frozen", [0, 3, 6, 9])
async def test_shared_lines_stay_readable_through_an_erasure(backend: Backend, ledger: Ledger, frozen: int) -> None:
    for number in range(1, 10):
        await ledger.commit(edit("n", f"{number}", line=number % 3 != 0, author="ada", add=number))
    await announce_all(ledger)
    if frozen:
        await ledger.freeze(NOTE, TENANT, "n", frozen, limit=100)
    lines = await ledger.history(NOTE, TENANT, "n", limit=9, by_position=True)

    stamp = await ledger.erase(NOTE, TENANT, "n", actor="eve", cause=None, keep_through_position=4)

    assert stamp
    assert stamp.version == 10
    for each in (ledger, await backend.open()):
        assert await each.history(NOTE, TENANT, "n", limit=9, by_position=True) == lines[:4]
        tagged = await each.history(NOTE, TENANT, "n", limit=2, by_position=True, tag=("author", "ada"), reverse=True)
        assert tagged == lines[3:1:-1]
        assert await each.record(NOTE, TENANT, "n", 5) == lines[3]
        for version in (7, 8, 9, 10):
            assert await each.record(NOTE, TENANT, "n", version) is None
        head = await each.head(NOTE, TENANT, "n")
        assert head
        assert head.value is None
        assert (await each.find(NOTE, TENANT, "recent", equals={}, limit=9)).items == []

    await announce_all(ledger)
    await ledger.erase(NOTE, TENANT, "n", actor="eve", cause=None)
    assert await ledger.history(NOTE, TENANT, "n", limit=9, by_position=True) == []
    assert await ledger.record(NOTE, TENANT, "n", 1) is None


async def test_head_of_a_recreated_key_has_nothing_of_the_shared_lines(ledger: Ledger) -> None:
    for before in (3, 4, 5):
        id = f"n{before}"
        await _lines(ledger, before, id)
        await _erase(ledger, id, keep_through_position=before)
        await announce_all(ledger)
        outcomes = [await ledger.commit(edit(id, f"{number}", add=100)) for number in range(6)]
        for outcome in outcomes:
            assert outcome.stamp
            head = await head_at(ledger, NOTE, TENANT, id, outcome.stamp.version)
            assert head
            assert head.value == outcome.head


async def test_erased_again_after_new_lines(ledger: Ledger) -> None:
    for round_ in range(3):
        await ledger.commit(edit("n", f"{round_}", add=1, line=True, told=Told(once="the same")))
        await _erase(ledger)
        await announce_all(ledger)

    head = await ledger.head(NOTE, TENANT, "n")
    assert head
    assert (head.version, head.value) == (6, None)


async def test_many_keys_are_erased_at_once_and_each_has_an_answer_of_its_own(ledger: Ledger) -> None:
    """Keys that cannot be erased lose nothing, and do not disturb the others."""
    told: list[Committed] = []
    ids = [f"n{number}" for number in range(120)]
    for id in ids:
        await ledger.commit(edit(id, add=1))
    await announce_all(ledger)
    late = ids[::10]
    await asyncio.gather(*[ledger.commit(edit(id, add=1)) for id in late])
    ledger.on_commit(told.extend)

    erasing = [ledger.erase(NOTE, TENANT, id, actor="eve", cause="gdpr") for id in ("never", *ids, ids[1])]
    never, *stamps, repeated = await asyncio.gather(*erasing, return_exceptions=True)

    assert never is None
    assert repeated == stamps[1]
    heads = await ledger.heads(NOTE, TENANT, ids)
    for id, stamp in zip(ids, stamps, strict=True):
        if id in late:
            assert isinstance(stamp, Unavailable)
            assert stamp.context["announced"] == 1
            assert (heads[id].version, heads[id].value is None) == (2, False)
        else:
            assert isinstance(stamp, Stamp)
            assert heads[id] == Head(id, 2, stamp.at, None)
    assert sorted(each.stamp.id for each in told) == sorted(set(ids) - set(late))
    assert (await ledger.commit(edit(late[0], add=1))).head.total == 3


async def test_erasure_that_races_with_writes_takes_all_or_is_refused(backend: Backend, ledger: Ledger) -> None:
    """In any order, the remaining records are above the fence and complete."""
    other = await backend.open()
    for round_ in range(6):
        id = f"n{round_}"
        await _lines(ledger, 2, id)
        await announce_all(ledger, other)

        writes = [(ledger, other)[number % 2].commit(edit(id, f"late {number}", add=1)) for number in range(4)]
        erasing = other.erase(NOTE, TENANT, id, actor="eve", cause=None)
        outcomes, (erased,) = await asyncio.gather(
            asyncio.gather(*writes, return_exceptions=True), asyncio.gather(erasing, return_exceptions=True)
        )

        fence = erased.version if isinstance(erased, Stamp) else 0
        assert fence or isinstance(erased, Unavailable)
        versions = [each.stamp.version for each in outcomes if isinstance(each, Outcome) and each.stamp]
        assert all(isinstance(each, (Outcome, Unavailable)) for each in outcomes)
        records = await ledger.history(NOTE, TENANT, id, limit=99)
        assert [record.stamp.version for record in records if record.stamp.version > 2] == sorted(
            version for version in versions if version > fence
        )
        assert all(record.stamp.version > fence for record in records)
        head = await ledger.head(NOTE, TENANT, id)
        assert head
        assert head.version == max([fence, *versions])
