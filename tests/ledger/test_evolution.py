"""Data of an older release is read, found and continued; data of a newer one is left alone."""

import asyncio

import pytest

from hivemem_runtime.ledger.entity import AnyEntity
from hivemem_runtime.ledger.past import head_at
from hivemem_runtime.ledger.port import Append, Covered, Decide, Ledger

from .backends import Backend
from .entities import COUNTER, ENTITIES
from .evolving import (
    FIRST,
    SECOND,
    SECOND_INDEXED_OTHERWISE,
    THIRD,
    FirstTaskRecord,
    TaskHead,
    TaskRecord,
)
from .waiting import announce_all
from .writes import TENANT, Told, count, write

TITLES = ("bb", "a", "dddd", "ccc")


def _appending(record: FirstTaskRecord) -> Decide:
    return lambda _heads, _now: [Append(FIRST, record.title, record)]


async def _first_release(backend: Backend, *, frozen: int = 0) -> None:
    """Four tasks of three records each, the last two of them done, and one more that is erased."""
    ledger = await backend.open([FIRST])
    for title in (*TITLES, "gone"):
        for step in range(3):
            record = FirstTaskRecord(title, done=step == 2 and title in TITLES[2:])
            told = Told(once=f"{step}", request_id=f"{title}-{step}")
            await ledger.commit(write(FIRST, title, _appending(record), told))
    await announce_all(ledger)
    if frozen:
        for title in TITLES:
            await ledger.freeze(FIRST, TENANT, title, frozen, limit=10)
    await ledger.erase(FIRST, TENANT, "gone", actor="eve", cause=None)
    await announce_all(ledger)
    await backend.close(ledger)


async def _found(ledger: Ledger, state: str, entity: AnyEntity = SECOND) -> list[str]:
    page = await ledger.find(entity, TENANT, "by_state", equals={"state": state}, limit=99)
    return [head.id for head in page.items]


@pytest.mark.parametrize("frozen", [0, 2, 3])
async def test_older_heads_records_and_snapshots_are_brought_up_to_date(backend: Backend, frozen: int) -> None:
    await _first_release(backend, frozen=frozen)

    ledger = await backend.open([SECOND])

    heads = await ledger.heads(SECOND, TENANT, [*TITLES, "gone"])
    assert {id: head.value for id, head in heads.items()} == {
        "bb": TaskHead("bb", "open", 2),
        "a": TaskHead("a", "open", 1),
        "dddd": TaskHead("dddd", "done", 4),
        "ccc": TaskHead("ccc", "done", 3),
        "gone": None,
    }
    records = await ledger.history(SECOND, TENANT, "dddd", limit=9)
    assert [record.value for record in records] == [TaskRecord("dddd", state, 4) for state in ("open", "open", "done")]
    assert records[1].snapshot == TaskHead("dddd", "open", 4)
    at_two = await head_at(ledger, SECOND, TENANT, "dddd", 2)
    assert at_two
    assert at_two.value == TaskHead("dddd", "open", 4)


async def test_older_heads_are_found_by_the_indexes_of_today(backend: Backend) -> None:
    await _first_release(backend)

    ledger = await backend.open([SECOND])

    assert await _found(ledger, "open") == ["a", "bb"]
    assert await _found(ledger, "done") == ["ccc", "dddd"]
    for step in await ledger.explain(SECOND, "by_state"):
        assert not any(word in step for word in backend.capabilities.scan_words)


async def test_older_data_is_continued(backend: Backend) -> None:
    await _first_release(backend)
    ledger = await backend.open([SECOND])

    outcome = await ledger.commit(
        write(SECOND, "a", lambda heads, _now: [Append(SECOND, "a", TaskRecord(str(heads(SECOND, "a")), "done", 9))])
    )
    again = await ledger.commit(write(SECOND, "a", lambda _h, _n: [], Told(once="1")))
    requested = await ledger.commit(write(SECOND, "x", lambda _h, _n: [], Told(request_id="bb-2")))

    assert outcome.stamp
    assert outcome.stamp.version == 4
    assert "state='open', weight=1" in outcome.record.title
    assert (again.duplicate, again.record) == (True, TaskRecord("a", "open", 1))
    assert (requested.duplicate, requested.record) == (True, TaskRecord("bb", "open", 2))
    assert await _found(ledger, "done") == ["ccc", "dddd", "a"]


async def test_two_releases_are_skipped_at_once(backend: Backend) -> None:
    await _first_release(backend)
    second = await backend.open([SECOND])
    await second.commit(write(SECOND, "new", lambda _h, _n: [Append(SECOND, "new", TaskRecord("new", "open", 0))]))
    await backend.close(second)

    ledger = await backend.open([THIRD])

    heads = await ledger.heads(THIRD, TENANT, ["a", "new"])
    assert [head.value for head in heads.values() if head.id == "a"] == [TaskHead("A", "open", 1)]
    assert [head.value for head in heads.values() if head.id == "new"] == [TaskHead("NEW", "open", 0)]
    assert await _found(ledger, "open", THIRD) == ["new", "a", "bb"]


async def test_changed_index_is_made_again(backend: Backend) -> None:
    await _first_release(backend)
    await backend.close(await backend.open([SECOND]))

    ledger = await backend.open([SECOND_INDEXED_OTHERWISE])

    assert await _found(ledger, "open", SECOND_INDEXED_OTHERWISE) == ["a", "bb"]
    assert await _found(ledger, "done", SECOND_INDEXED_OTHERWISE) == ["ccc", "dddd"]
    page = await ledger.find(SECOND_INDEXED_OTHERWISE, TENANT, "by_title", equals={"title": "ccc"}, limit=9)
    assert [head.id for head in page.items] == ["ccc"]
    covered = await ledger.covered(SECOND_INDEXED_OTHERWISE, TENANT, "ids", equals={}, limit=9)
    assert covered.items == [
        Covered("a", {"weight": 1, "state": "open"}),
        Covered("bb", {"weight": 2, "state": "open"}),
        Covered("ccc", {"weight": 3, "state": "done"}),
        Covered("dddd", {"weight": 4, "state": "done"}),
    ]
    for index in ("by_state", "by_title", "ids"):
        for step in await ledger.explain(SECOND_INDEXED_OTHERWISE, index):
            assert not any(word in step for word in backend.capabilities.scan_words)


async def test_entity_that_is_new_in_a_release_stands_beside_the_old_ones(backend: Backend) -> None:
    await _first_release(backend)

    ledger = await backend.open([*ENTITIES, SECOND])
    await ledger.commit(count("c", 7))

    heads = await ledger.heads(COUNTER, TENANT, ["c"])
    assert heads["c"].version == 1
    assert await _found(ledger, "open") == ["a", "bb"]


async def test_opening_twice_changes_nothing(backend: Backend) -> None:
    await _first_release(backend)
    first = await backend.open([SECOND])
    before = await first.history(SECOND, TENANT, "a", limit=9)

    others = await asyncio.gather(*[backend.open([SECOND]) for _ in range(3)])

    for each in (first, *others):
        assert await each.history(SECOND, TENANT, "a", limit=9) == before
        assert await _found(each, "open") == ["a", "bb"]


async def test_data_of_a_newer_schema_is_refused(backend: Backend) -> None:
    await _first_release(backend)
    ledger = await backend.open([SECOND])
    before = await ledger.history(SECOND, TENANT, "a", limit=9)

    with pytest.raises(Exception, match=r"(?i)schema|newer"):
        await backend.open([FIRST])

    assert await ledger.history(SECOND, TENANT, "a", limit=9) == before
    assert await _found(ledger, "open") == ["a", "bb"]


async def test_data_of_a_newer_release_is_refused(backend: Backend, ledger: Ledger) -> None:
    await ledger.commit(count("c"))
    await backend.close(ledger)
    backend.store.become_newer()

    with pytest.raises(Exception, match=r"(?i)version|newer"):
        await backend.open()
