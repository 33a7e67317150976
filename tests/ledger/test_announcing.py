"""Versions that are not known to be on the bus are due, and an announced mark is never lost or moved back."""

import asyncio
from collections.abc import Sequence

from hivemem_runtime.ledger.feed_mark import FeedMark
from hivemem_runtime.ledger.port import Committed, Due, Ledger

from .backends import Backend
from .clock import SECOND, ManualClock
from .entities import NOTE
from .waiting import FAR, eventually, nothing_due
from .writes import TENANT, Told, count, edit, note_and_count, nothing


async def _due(ledger: Ledger, limit: int = 100) -> list[tuple[str, str, int, int]]:
    return [(due.entity, due.id, due.announced, due.version) for due in await ledger.due(older_than=FAR, limit=limit)]


async def test_what_was_committed_is_due(ledger: Ledger, clock: ManualClock) -> None:
    await ledger.commit(edit("n"))
    clock.advance()
    outcome = await ledger.commit(edit("n"))
    await ledger.commit(nothing("c"))

    assert outcome.stamp
    assert await ledger.due(older_than=FAR, limit=9) == [
        Due(TENANT, "note", "n", announced=0, version=2, erased=False, at=outcome.stamp.at)
    ]


async def test_all_keys_of_a_write_are_due(ledger: Ledger) -> None:
    await ledger.commit(note_and_count("n", "c", "both"))

    assert sorted(await _due(ledger)) == [("counter", "c", 0, 1), ("note", "n", 0, 1)]


async def test_due_keys_come_oldest_first_and_only_those_older_than_asked(ledger: Ledger, clock: ManualClock) -> None:
    start = clock.now
    for number, id in enumerate(["b", "a", "d", "c"]):
        clock.now = start + number * SECOND
        await ledger.commit((edit(id), count(id))[number % 2])
    clock.now = start + 9 * SECOND
    await ledger.commit(edit("b"))

    assert [due.id for due in await ledger.due(older_than=FAR, limit=9)] == ["a", "d", "c", "b"]
    assert [due.id for due in await ledger.due(older_than=FAR, limit=2)] == ["a", "d"]
    assert [due.id for due in await ledger.due(older_than=start + 3 * SECOND, limit=9)] == ["a", "d"]
    assert await ledger.due(older_than=start, limit=9) == []


async def test_announced_key_is_due_no_longer(backend: Backend, ledger: Ledger) -> None:
    for _ in range(3):
        await ledger.commit(edit("n"))
    ledger.announced("note", TENANT, "n", 2)
    other = await backend.open()

    async def marked() -> bool:
        return await _due(other) == [("note", "n", 2, 3)]

    await eventually(marked, "the mark is durable though the key is left alone")
    ledger.announced("note", TENANT, "n", 3)
    await nothing_due(other)
    await ledger.commit(edit("n"))
    assert await _due(other) == [("note", "n", 3, 4)]


async def test_mark_is_known_to_the_next_commit_and_durable_by_itself(backend: Backend, ledger: Ledger) -> None:
    seen: list[Committed] = []
    ledger.on_commit(seen.extend)
    other = await backend.open()

    for version in range(1, 5):
        await ledger.commit(edit("n"))
        ledger.announced("note", TENANT, "n", version)
    await ledger.commit(edit("n"))

    assert [(each.stamp.version, each.announced) for each in seen] == [(1, 0), (2, 1), (3, 2), (4, 3), (5, 4)]

    async def marked() -> bool:
        return await _due(other) == [("note", "n", 4, 5)]

    await eventually(marked, "the mark is durable without a commit to carry it")


async def test_writer_that_takes_over_knows_the_mark(backend: Backend, ledger: Ledger) -> None:
    other = await backend.open()
    seen: list[Committed] = []
    other.on_commit(seen.extend)
    await other.commit(edit("n"))
    await ledger.commit(edit("n"))
    ledger.announced("note", TENANT, "n", 2)
    await ledger.commit(edit("n"))
    await ledger.due(older_than=FAR, limit=1)

    await other.commit(edit("n"))

    assert [(each.stamp.version, each.announced) for each in seen] == [(1, 0), (4, 2)]


async def test_mark_is_never_taken_back(backend: Backend, ledger: Ledger) -> None:
    other = await backend.open()
    for _ in range(5):
        await ledger.commit(edit("n"))
    ledger.announced("note", TENANT, "n", 4)
    ledger.announced("note", TENANT, "n", 2)

    async def marked() -> bool:
        return await _due(other) == [("note", "n", 4, 5)]

    await eventually(marked, "the highest mark counts")
    other.announced("note", TENANT, "n", 3)
    await other.commit(edit("n"))
    ledger.announced("note", TENANT, "n", 1)
    await ledger.commit(edit("n"))

    assert await _due(other) == [("note", "n", 4, 7)]


async def test_marks_are_durable_once_the_ledger_is_closed(backend: Backend, ledger: Ledger) -> None:
    for number in range(40):
        await ledger.commit(edit(f"n{number}"))
        ledger.announced("note", TENANT, f"n{number}", 1)

    again = await backend.reopen(ledger)

    assert await _due(again) == []


async def test_feed_mark_is_durable_no_later_than_the_marks_that_rely_on_it(backend: Backend, ledger: Ledger) -> None:
    other = await backend.open()
    assert await ledger.feed_mark() is None
    await ledger.commit(edit("n"))
    ledger.note_feed(FeedMark("created", "1-a", 7, "note:t:n:1"))
    ledger.announced("note", TENANT, "n", 1)

    await nothing_due(other)

    assert await other.feed_mark() == FeedMark("created", "1-a", 7, "note:t:n:1")


async def test_newest_feed_mark_of_all_writers_counts(backend: Backend, ledger: Ledger) -> None:
    other = await backend.open()
    for writer, mark in (
        (ledger, FeedMark("created", "1-a", 7, "seven")),
        (other, FeedMark("created", "1-a", 5, "five")),
        (ledger, FeedMark("created", "2-b", 3, "three", begins=9)),
        (other, FeedMark("created", "1-a", 8, "eight")),
    ):
        writer.note_feed(mark)
        await writer.due(older_than=FAR, limit=1)

    again = await backend.reopen(ledger)

    assert await again.feed_mark() == FeedMark("created", "2-b", 3, "three", begins=9)


async def test_what_was_committed_since_a_moment_is_due_again(
    backend: Backend, ledger: Ledger, clock: ManualClock
) -> None:
    other = await backend.open()
    for id in ("old", "erased", "new"):
        await ledger.commit(edit(id))
    ledger.announced("note", TENANT, "old", 1)
    clock.advance()
    since = clock.now
    for id in ("erased", "new"):
        await ledger.commit(edit(id))
        ledger.announced("note", TENANT, id, 2)
    await nothing_due(other)
    stamp = await ledger.erase(NOTE, TENANT, "erased", actor="a", cause=None)
    assert stamp
    ledger.announced("note", TENANT, "erased", stamp.version)
    await nothing_due(other)
    ledger.announced("note", TENANT, "new", 2)

    mark = FeedMark("created", "2-b", 0, "", begins=since)
    ledger.note_feed(FeedMark("created", "1-a", 7, "seven"))
    await ledger.announce_again(mark)

    assert await other.feed_mark() == mark
    assert sorted(await _due(other)) == [("note", "erased", 0, 3), ("note", "new", 0, 2)]
    await other.commit(edit("new"))
    await ledger.commit(edit("new"))
    assert sorted(await _due(ledger)) == [("note", "erased", 0, 3), ("note", "new", 0, 4)]


async def test_mark_of_an_unknown_key_harms_nobody(backend: Backend, ledger: Ledger) -> None:
    ledger.announced("note", TENANT, "never", 3)
    await ledger.commit(edit("n"))
    ledger.announced("note", TENANT, "n", 1)

    again = await backend.reopen(ledger)

    assert await _due(again) == []
    assert await again.head(NOTE, TENANT, "never") is None


async def test_marks_under_load_are_neither_lost_nor_ahead(backend: Backend, ledger: Ledger) -> None:
    """Each process announces its commits; at the end nothing is due, and no mark ever passed its version."""
    other = await backend.open()
    ahead: list[Committed] = []

    def announcing(each: Ledger) -> None:
        def listen(batch: Sequence[Committed]) -> None:
            ahead.extend(committed for committed in batch if committed.announced >= committed.stamp.version)
            for committed in batch:
                stamp = committed.stamp
                each.announced(stamp.entity, stamp.tenant, stamp.id, stamp.version)

        each.on_commit(listen)

    announcing(ledger)
    announcing(other)
    await asyncio.gather(
        *[(ledger, other)[n % 2].commit(edit(f"n{n % 5}", told=Told(once=f"{n}"))) for n in range(300)]
    )

    assert ahead == []
    await nothing_due(ledger)


async def test_what_was_announced_on_an_earlier_feed_stays_due(backend: Backend, ledger: Ledger) -> None:
    """One worker has made the keys due again; another one does not know it yet, and finishes first."""
    other = await backend.open()
    await ledger.commit(edit("n"))
    ledger.note_feed(FeedMark("created", "1-a", 7, "note:t:n:1"))
    ledger.announced("note", TENANT, "n", 1)
    await other.announce_again(FeedMark("created", "2-b", 0, ""))

    again = await backend.reopen(ledger)

    assert await _due(again) == [("note", "n", 0, 1)]
    assert await again.feed_mark() == FeedMark("created", "2-b", 0, "")
