"""Records are read by version, by position and by tag, hot or cold, forwards and backwards."""

import itertools
from collections.abc import Sequence

import pytest

from hivemem_runtime.ledger.port import Ledger, Record

from .backends import Backend
from .entities import COUNTER, NOTE, NoteEdited
from .waiting import announce_all
from .writes import TENANT, Told, count, edit

RECORDS = 23
AUTHORS = ("ada", "bo", None)
TOPICS = ("x", "y")


def _has_line(version: int) -> bool:
    """Return whether a version is a line of the note; every third one is not, and has no position."""
    return version % 3 != 0


async def _write_all(ledger: Ledger) -> None:
    for version in range(1, RECORDS + 1):
        author, topic = AUTHORS[version % 3], TOPICS[version % 2]
        await ledger.commit(edit("n", f"{version}", line=_has_line(version), author=author, topic=topic, add=version))


@pytest.fixture(params=[0, 9, 23], ids=lambda frozen: f"frozen-{frozen}")
async def ledger(request: pytest.FixtureRequest, backend: Backend) -> Ledger:
    """A note of 23 records of which none, some or all are cold, and a second key that no read returns."""
    ledger = await backend.open()
    await _write_all(ledger)
    await ledger.commit(edit("n2", "of another key", line=True, author="ada", topic="x"))
    await ledger.commit(edit("n", "of another tenant", line=True, author="ada", told=Told(tenant="zeta")))
    frozen: int = request.param
    if frozen:
        await announce_all(ledger)
        assert await ledger.freeze(NOTE, TENANT, "n", frozen, limit=1000) == frozen
    return ledger


def _texts(records: Sequence[Record[NoteEdited]]) -> list[str | None]:
    return [record.value.text for record in records]


def _expected(
    after: int, before: int | None, limit: int, reverse: bool, by_position: bool, tag: tuple[str, str] | None
) -> list[str | None]:
    positions = itertools.count(1)
    rows = [
        (version, next(positions) if _has_line(version) else None, AUTHORS[version % 3], TOPICS[version % 2])
        for version in range(1, RECORDS + 1)
    ]
    found: list[str | None] = []
    for version, position, author, topic in reversed(rows) if reverse else rows:
        place = position if by_position else version
        if place is None or place <= after or (before is not None and place >= before):
            continue
        if tag is None or {"author": author, "topic": topic}[tag[0]] == tag[1]:
            found.append(str(version))
    return found[:limit]


async def test_history_by_version_keeps_bounds_order_and_limit(ledger: Ledger) -> None:
    for after, before, limit, reverse in itertools.product(
        (0, 1, 8, 9, 23, 30), (None, 0, 2, 10, 24, 99), (1, 5, 100), (False, True)
    ):
        records = await ledger.history(NOTE, TENANT, "n", after=after, before=before, limit=limit, reverse=reverse)
        assert _texts(records) == _expected(after, before, limit, reverse, by_position=False, tag=None)


async def test_history_by_position_keeps_bounds_order_and_limit(ledger: Ledger) -> None:
    for after, before, limit, reverse in itertools.product(
        (0, 1, 6, 15, 16), (None, 1, 2, 7, 17, 99), (1, 4, 100), (False, True)
    ):
        records = await ledger.history(
            NOTE, TENANT, "n", after=after, before=before, limit=limit, reverse=reverse, by_position=True
        )
        assert _texts(records) == _expected(after, before, limit, reverse, by_position=True, tag=None)


async def test_history_by_tag_keeps_bounds_order_and_limit(ledger: Ledger) -> None:
    tags = [("author", "ada"), ("author", "bo"), ("author", "nobody"), ("topic", "x")]
    for tag, (after, before), limit, reverse in itertools.product(
        tags, ((0, None), (3, 8), (0, 17), (15, 17)), (1, 3, 100), (False, True)
    ):
        records = await ledger.history(
            NOTE, TENANT, "n", after=after, before=before, limit=limit, reverse=reverse, by_position=True, tag=tag
        )
        assert _texts(records) == _expected(after, before, limit, reverse, by_position=True, tag=tag)


async def test_each_record_is_found_whole_by_its_version(ledger: Ledger) -> None:
    history = await ledger.history(NOTE, TENANT, "n", limit=100)

    for version, expected in enumerate(history, start=1):
        record = await ledger.record(NOTE, TENANT, "n", version)
        assert record
        assert record == expected
        assert record.stamp.version == version
        assert record.value.add == version
    assert await ledger.record(NOTE, TENANT, "n", 0) is None
    assert await ledger.record(NOTE, TENANT, "n", RECORDS + 1) is None
    assert await ledger.record(NOTE, TENANT, "never", 1) is None


async def test_paging_through_a_history_gives_each_record_once(ledger: Ledger) -> None:
    whole = await ledger.history(NOTE, TENANT, "n", limit=100)
    forwards: list[Record[NoteEdited]] = []
    while page := await ledger.history(NOTE, TENANT, "n", after=forwards[-1].stamp.version if forwards else 0, limit=4):
        forwards += page
    backwards: list[Record[NoteEdited]] = []
    while page := await ledger.history(
        NOTE, TENANT, "n", before=backwards[-1].stamp.version if backwards else None, limit=4, reverse=True
    ):
        backwards += page

    assert forwards == whole
    assert backwards == whole[::-1]


async def test_version_at_counts_what_is_cold(ledger: Ledger) -> None:
    for record in await ledger.history(NOTE, TENANT, "n", limit=100):
        stamp = record.stamp
        assert await ledger.version_at(NOTE, TENANT, "n", stamp.at) == stamp.version
        assert await ledger.version_at(NOTE, TENANT, "n", stamp.at - 1) == stamp.version - 1


async def test_history_of_a_key_that_was_never_written_is_empty(backend: Backend) -> None:
    ledger = await backend.open()

    assert await ledger.history(NOTE, TENANT, "n", limit=9) == []
    assert await ledger.history(NOTE, TENANT, "n", limit=9, by_position=True, tag=("author", "ada")) == []
    assert await ledger.version_at(NOTE, TENANT, "n", 2**53) == 0
    assert await ledger.head(NOTE, TENANT, "n") is None


async def test_history_of_an_entity_without_positions_has_none(backend: Backend) -> None:
    ledger = await backend.open()
    await ledger.commit(count("c"))

    assert len(await ledger.history(COUNTER, TENANT, "c", limit=9)) == 1
    assert await ledger.history(COUNTER, TENANT, "c", limit=9, by_position=True) == []
