"""Records move to cold storage without any visible change."""

import asyncio

from hivemem_runtime.ledger.port import Ledger

from .backends import Backend
from .entities import COUNTER, NOTE
from .waiting import announce_all, nothing_due
from .writes import TENANT, count, edit

LONG = 700
"""More records than one chunk of cold storage holds."""


async def _lines(ledger: Ledger, many: int, id: str = "n") -> None:
    writes = [edit(id, f"{number}", add=number, line=True, author="ada") for number in range(1, many + 1)]
    await asyncio.gather(*[ledger.commit(each) for each in writes])


async def test_frozen_records_stay_readable_and_the_head_as_it_is(ledger: Ledger) -> None:
    await _lines(ledger, 20)
    await announce_all(ledger)
    before = await ledger.history(NOTE, TENANT, "n", limit=100)
    head = await ledger.head(NOTE, TENANT, "n")

    assert await ledger.freeze(NOTE, TENANT, "n", 15, limit=100) == 15

    assert await ledger.history(NOTE, TENANT, "n", limit=100) == before
    assert await ledger.head(NOTE, TENANT, "n") == head
    assert await ledger.due(older_than=2**53, limit=9) == []


async def test_each_record_is_frozen_once_and_oldest_first(ledger: Ledger) -> None:
    await _lines(ledger, 20)
    await announce_all(ledger)
    before = await ledger.history(NOTE, TENANT, "n", limit=100)

    moved = [await ledger.freeze(NOTE, TENANT, "n", 15, limit=6) for _ in range(4)]
    moved += [await ledger.freeze(NOTE, TENANT, "n", 3, limit=6)]
    moved += [await ledger.freeze(NOTE, TENANT, "n", 999, limit=6)]

    assert moved == [6, 6, 3, 0, 0, 5]
    assert await ledger.history(NOTE, TENANT, "n", limit=100) == before


async def test_only_announced_records_are_frozen(ledger: Ledger) -> None:
    await _lines(ledger, 10)

    assert await ledger.freeze(NOTE, TENANT, "n", 10, limit=100) == 0
    ledger.announced("note", TENANT, "n", 4)
    assert await ledger.freeze(NOTE, TENANT, "n", 10, limit=100) == 4
    ledger.announced("note", TENANT, "n", 10)
    await nothing_due(ledger)
    assert await ledger.freeze(NOTE, TENANT, "n", 10, limit=100) == 6


async def test_key_that_was_never_written_has_nothing_to_freeze(ledger: Ledger) -> None:
    assert await ledger.freeze(NOTE, TENANT, "n", 10, limit=100) == 0


async def test_frozen_key_goes_on(backend: Backend, ledger: Ledger) -> None:
    other = await backend.open()
    await _lines(ledger, 10)
    await announce_all(ledger)
    await ledger.freeze(NOTE, TENANT, "n", 10, limit=100)

    for number in range(11, 21):
        await (ledger, other)[number % 2].commit(edit("n", f"{number}", add=number, line=True))

    for each in (ledger, other, await backend.open()):
        records = await each.history(NOTE, TENANT, "n", limit=100)
        assert [record.stamp.version for record in records] == list(range(1, 21))
        head = await each.head(NOTE, TENANT, "n")
        assert head
        assert head.value
        assert (head.version, head.value.total, head.value.position) == (20, 210, 20)


async def test_long_history_is_frozen_piece_by_piece_and_read_across_all_of_them(ledger: Ledger) -> None:
    await _lines(ledger, LONG)
    await announce_all(ledger)
    before = await ledger.history(NOTE, TENANT, "n", limit=LONG)

    moved = [await ledger.freeze(NOTE, TENANT, "n", LONG - 50, limit=limit) for limit in (1, 300, 40, 1000)]

    assert sum(moved) == LONG - 50
    assert await ledger.history(NOTE, TENANT, "n", limit=LONG) == before
    assert await ledger.history(NOTE, TENANT, "n", limit=LONG, reverse=True) == before[::-1]
    around = await ledger.history(NOTE, TENANT, "n", after=290, before=312, limit=100, by_position=True)
    assert around == before[290:311]
    tagged = await ledger.history(
        NOTE, TENANT, "n", after=340, limit=5, by_position=True, tag=("author", "ada"), reverse=False
    )
    assert tagged == before[340:345]
    for record in before[::37]:
        assert await ledger.version_at(NOTE, TENANT, "n", record.stamp.at) == record.stamp.version


async def test_freezing_while_others_write_loses_nothing(backend: Backend, ledger: Ledger) -> None:
    other = await backend.open()
    await asyncio.gather(*[ledger.commit(count("c")) for _ in range(100)])
    await announce_all(ledger, other)

    queued = [(ledger, other)[number % 2].commit(count("c")) for number in range(100)]
    moved = [await other.freeze(COUNTER, TENANT, "c", 100, limit=10) for _ in range(10)]
    await asyncio.gather(*queued)

    assert sum(moved) == 100
    records = await ledger.history(COUNTER, TENANT, "c", limit=1000)
    assert [(record.stamp.version, record.value.value) for record in records] == [(n, n) for n in range(1, 201)]


async def test_two_processes_that_freeze_the_same_key_move_each_record_once(backend: Backend, ledger: Ledger) -> None:
    other = await backend.open()
    await _lines(ledger, 60)
    await announce_all(ledger, other)
    before = await ledger.history(NOTE, TENANT, "n", limit=100)

    moved = await asyncio.gather(
        *[(ledger, other)[number % 2].freeze(NOTE, TENANT, "n", 50, limit=20) for number in range(6)]
    )

    assert sum(moved) == 50
    assert await other.history(NOTE, TENANT, "n", limit=100) == before
