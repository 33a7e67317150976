"""Many keys are erased at once, each with an answer of its own."""

import asyncio

import pytest

from hivemem_contracts.errors import NotFound, Unavailable
from hivemem_runtime.ledger.entity import Stamp
from hivemem_runtime.ledger.port import Committed, Ledger, Outcome

from .backends import Backend, within
from .entities import COUNTER, NOTE
from .waiting import announce_all
from .writes import TENANT, Told, count, edit

IDS = tuple(f"n{number:03}" for number in range(120))


async def _erase_all(ledger: Ledger, *ids: str, cause: str = "gdpr") -> list[Stamp | BaseException | None]:
    erasing = [ledger.erase(NOTE, TENANT, id, actor="eve", cause=cause) for id in ids]
    stamps: list[Stamp | BaseException | None] = await within(asyncio.gather(*erasing, return_exceptions=True))
    return stamps


async def test_each_key_is_erased_and_told_once(ledger: Ledger) -> None:
    told: list[Committed] = []
    for turn in range(3):
        await asyncio.gather(*[ledger.commit(edit(id, told=Told(request_id=f"{turn}{id}"))) for id in IDS])
    await ledger.commit(edit("other"))
    await announce_all(ledger)
    ledger.on_commit(told.extend)

    stamps = await _erase_all(ledger, *IDS)

    assert [(stamp.id, stamp.version) for stamp in stamps if isinstance(stamp, Stamp)] == [(id, 4) for id in IDS]
    assert sorted((each.stamp.id, each.erased) for each in told) == [(id, True) for id in IDS]
    assert {each.stamp for each in told} == set(stamps)
    heads = await ledger.heads(NOTE, TENANT, [*IDS, "other"])
    assert [id for id, head in heads.items() if head.value] == ["other"]
    assert [len(await ledger.history(NOTE, TENANT, id, limit=9)) for id in IDS[::20]] == [0] * 6
    await announce_all(ledger)
    for id in IDS[::20]:
        with pytest.raises(NotFound):
            await ledger.commit(edit(id, told=Told(request_id=f"1{id}")))


async def test_what_cannot_be_erased_does_not_keep_the_rest(ledger: Ledger) -> None:
    """One key is not announced, one never existed, one was erased by another worker, and one is named twice."""
    await asyncio.gather(*[ledger.commit(edit(id)) for id in ("a", "b", "gone", "late")])
    await announce_all(ledger)
    await ledger.erase(NOTE, TENANT, "gone", actor="bo", cause="before")
    await ledger.commit(edit("late"))

    first, late, never, gone, last, again = await _erase_all(ledger, "a", "late", "never", "gone", "b", "a")

    assert isinstance(first, Stamp)
    assert isinstance(last, Stamp)
    assert isinstance(late, Unavailable)
    assert (never, gone, again) == (None, None, first)
    head = await ledger.head(NOTE, TENANT, "late")
    assert head
    assert (head.version, head.value is None) == (2, False)


async def test_two_processes_that_erase_the_same_keys_agree(backend: Backend, ledger: Ledger) -> None:
    other = await backend.open()
    told: list[Committed] = []
    for each in (ledger, other):
        each.on_commit(told.extend)
    await asyncio.gather(*[ledger.commit(edit(id)) for id in IDS])
    await announce_all(ledger, other)
    told.clear()

    left, right = await asyncio.gather(_erase_all(ledger, *IDS), _erase_all(other, *reversed(IDS)))

    assert left == right[::-1]
    assert all(isinstance(stamp, Stamp) for stamp in left)
    assert sorted(each.stamp.id for each in told) == sorted(IDS)


async def test_writes_go_on_beside_many_erasures(backend: Backend, ledger: Ledger) -> None:
    other = await backend.open()
    await asyncio.gather(*[ledger.commit(edit(id)) for id in IDS])
    await announce_all(ledger, other)

    erasing = asyncio.create_task(_erase_all(ledger, *IDS))
    writing = [(ledger, other)[number % 2].commit(count(f"c{number % 7}")) for number in range(140)]
    outcomes = await within(asyncio.gather(*writing))
    stamps = await erasing

    assert all(isinstance(each, Outcome) for each in outcomes)
    assert all(isinstance(each, Stamp) for each in stamps)
    heads = await other.heads(COUNTER, TENANT, [f"c{number}" for number in range(7)])
    assert [head.value and head.value.value for head in heads.values()] == [20] * 7
