"""A read of any past version, or as of any past moment, returns the head of that time."""

import asyncio
import random

import pytest

from hivemem_runtime.ledger.past import head_as_of, head_at
from hivemem_runtime.ledger.port import Ledger, Outcome

from .backends import Backend
from .clock import SECOND, ManualClock
from .entities import COUNTER, NOTE
from .waiting import announce_all
from .writes import TENANT, count, edit

VERSIONS = 30


async def _notes(ledger: Ledger, clock: ManualClock) -> list[Outcome]:
    random_ = random.Random(7)
    outcomes: list[Outcome] = []
    for number in range(VERSIONS):
        clock.advance(random_.choice((-SECOND, 0, 0, 1, 2, SECOND)))
        outcomes.append(await ledger.commit(edit("n", f"{number}", add=number, line=number % 2 == 0)))
    return outcomes


async def test_head_at_each_version_and_moment_is_the_one_that_was_there(ledger: Ledger, clock: ManualClock) -> None:
    outcomes = await _notes(ledger, clock)
    await announce_all(ledger)

    for frozen in (0, 5, 30):
        await ledger.freeze(NOTE, TENANT, "n", frozen, limit=100)
        for version, outcome in enumerate(outcomes, start=1):
            assert outcome.stamp
            at = outcome.stamp.at
            head = await head_at(ledger, NOTE, TENANT, "n", version)
            assert head
            assert (head.version, head.at, head.value) == (version, at, outcome.head)
            assert await head_as_of(ledger, NOTE, TENANT, "n", at) == head
            assert await ledger.version_at(NOTE, TENANT, "n", at - 1) == version - 1


async def test_head_at_reads_no_more_than_a_snapshot_and_what_follows(ledger: Ledger, clock: ManualClock) -> None:
    await _notes(ledger, clock)

    records = await ledger.history(NOTE, TENANT, "n", limit=100)

    kept = [record.stamp.version for record in records if record.snapshot is not None]
    assert kept == list(range(4, VERSIONS + 1, 4))


async def test_head_before_the_first_and_after_the_last_version(ledger: Ledger, clock: ManualClock) -> None:
    outcomes = await _notes(ledger, clock)
    first, last = outcomes[0].stamp, outcomes[-1].stamp
    assert first
    assert last

    assert await head_at(ledger, NOTE, TENANT, "n", 0) is None
    assert await head_at(ledger, NOTE, TENANT, "n", VERSIONS + 1) is None
    assert await head_as_of(ledger, NOTE, TENANT, "n", first.at - 1) is None
    newest = await head_as_of(ledger, NOTE, TENANT, "n", last.at + 3600 * SECOND)
    assert newest == await ledger.head(NOTE, TENANT, "n")
    assert await head_as_of(ledger, NOTE, TENANT, "never", last.at) is None


@pytest.mark.parametrize("frozen", [0, 40, 200])
async def test_many_keys_are_looked_at_as_of_one_moment(
    backend: Backend, ledger: Ledger, clock: ManualClock, frozen: int
) -> None:
    """Short and long histories, some that began later, an erased one, and one that began again."""
    lengths = {"one": 1, "few": 7, "long": 200, "late": 3, "gone": 5, "anew": 5}
    moments = [clock.now - 1]
    for step in range(200):
        clock.advance()
        ids = [id for id, length in lengths.items() if step < length and (id != "late" or step)]
        await asyncio.gather(*[ledger.commit(edit(id, f"{step}", add=step)) for id in ids])
        moments += [clock.now, clock.now + 1]
    await announce_all(ledger)
    for id in lengths:
        await ledger.freeze(NOTE, TENANT, id, frozen, limit=1000)
    for id in ("gone", "anew"):
        await ledger.erase(NOTE, TENANT, id, actor="eve", cause=None)
    await announce_all(ledger)
    for _ in range(3):
        await ledger.commit(edit("anew", "anew"))

    other = await backend.open()
    for at in (*moments[::17], clock.now, clock.now + SECOND, 0, 2**53):
        found = await other.as_of(NOTE, TENANT, [*lengths, "never", "one"], at)
        for id in lengths:
            version = await ledger.version_at(NOTE, TENANT, id, at)
            assert (found[id].stamp.version if id in found else 0) == version
            assert found.get(id) == await ledger.record(NOTE, TENANT, id, version)
        assert set(found) <= set(lengths)


async def test_more_keys_than_one_question_takes_are_looked_at(ledger: Ledger, clock: ManualClock) -> None:
    ids = [f"c{number}" for number in range(1200)]
    await asyncio.gather(*[ledger.commit(count(id, 1)) for id in ids])
    at = clock.advance()
    clock.advance()
    await asyncio.gather(*[ledger.commit(count(id, 1)) for id in ids[::3]])

    found = await ledger.as_of(COUNTER, TENANT, ids, at)

    assert list(map(found.__contains__, ids)) == [True] * 1200
    assert {record.value.value for record in found.values()} == {1}
    assert await ledger.as_of(COUNTER, TENANT, [], at) == {}


async def test_records_that_hold_all_need_no_snapshot(ledger: Ledger, clock: ManualClock) -> None:
    outcomes = [await ledger.commit(count("c", number)) for number in range(1, 8)]

    for version, outcome in enumerate(outcomes, start=1):
        head = await head_at(ledger, COUNTER, TENANT, "c", version)
        assert head
        assert head.value == outcome.head
        assert await head_as_of(ledger, COUNTER, TENANT, "c", head.at) == head
