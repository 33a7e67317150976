"""Ids and values of every kind are read back exactly as they were written."""

import asyncio
import random
from typing import Any

import pytest

from hivemem_contracts.limits import ID_CHARACTERS, JSON_DEPTH, STATE_BYTES
from hivemem_runtime.ledger.port import Ledger

from .backends import Backend
from .entities import NOTE
from .waiting import announce_all
from .writes import TENANT, Told, edit

IDS = (
    "a.b.c",
    "$set",
    "$",
    ".",
    "a:b",
    "a b",
    "a/b\\c",
    "%",
    "100%_",
    "'; DROP TABLE note_heads; --",
    '"quoted"',
    "{json: 1}",
    "é",
    "e\u0301",
    "\u202eright to left",
    "\U0001f41d\U0001f3fd",
    "\uffff",
    "\u2028",
    "null",
    "None",
    "0",
    "00",
    "1e3",
    "A",
    "a",
    "ID" * (ID_CHARACTERS // 2),
    "ID" * (ID_CHARACTERS // 2 - 1) + "IE",
    "\U0001f41d" * ID_CHARACTERS,
)


async def test_odd_ids_are_keys_of_their_own(backend: Backend, ledger: Ledger) -> None:
    writes = [edit(id, id, board=id, add=number, line=True, author=id) for number, id in enumerate(IDS)]
    await asyncio.gather(*[ledger.commit(each) for each in writes])
    again = await backend.reopen(ledger)

    heads = await again.heads(NOTE, TENANT, IDS)
    assert {id: head.value and head.value.total for id, head in heads.items()} == {
        id: number for number, id in enumerate(IDS)
    }
    for id in IDS:
        page = await again.find(NOTE, TENANT, "by_board", equals={"board": id}, limit=9)
        assert [head.id for head in page.items] == [id]
        assert len(await again.history(NOTE, TENANT, id, limit=9, by_position=True, tag=("author", id))) == 1
        assert await again.version_at(NOTE, TENANT, id, 2**53) == 1
    page = await again.find(NOTE, TENANT, "recent", equals={}, limit=99)
    assert {head.id for head in page.items} == set(IDS)


async def test_odd_texts_tell_requests_tenants_and_actors_apart(ledger: Ledger) -> None:
    for text in IDS:
        told = Told(tenant=text, actor=text, request_id=text, once=text, cause=text, traceparent=text)
        outcome = await ledger.commit(edit("n", text, told=told))
        assert outcome.duplicate is False
        assert (await ledger.commit(edit("n", text, told=told))).stamp == outcome.stamp
        record = await ledger.record(NOTE, text, "n", 1)
        assert record
        assert record.stamp == outcome.stamp
        assert (record.stamp.tenant, record.stamp.actor, record.stamp.cause) == (text, text, text)


async def test_scopes_are_not_confused_by_what_joins_them(ledger: Ledger) -> None:
    """An adapter's separator between the parts of an id may also be part of the id."""
    for separator in (":", ".", "/", "|", " ", "%", "_", "-", "\\", "\x1f", "\t"):
        for place, (tenant, id, once) in enumerate(
            [
                (f"a{separator}b", "c", "d"),
                ("a", f"b{separator}c", "d"),
                ("a", "b", f"c{separator}d"),
                (f"a{separator}b{separator}c", "d", "e"),
            ]
        ):
            told = Told(tenant=tenant, once=once, request_id=f"{separator}r{place}")
            assert (await ledger.commit(edit(id, told=told))).duplicate is False
        tangled = [("x", f"y{separator}z"), (f"x{separator}y", "z")]
        for tenant, request in tangled:
            assert (await ledger.commit(edit("n", told=Told(tenant=tenant, request_id=request)))).duplicate is False


def _nested(depth: int) -> Any:
    value: Any = "deep"
    for level in range(depth):
        value = [value] if level % 2 else {"in": value}
    return value


VALUES: tuple[Any, ...] = (
    0,
    -1,
    2**53,
    2**63 - 1,
    -(2**63),
    1.5,
    -0.1,
    1e300,
    5e-324,
    True,
    False,
    "",
    "\u0000 and \u0001",
    "\U0001f41d é e\u0301 \u2028",
    [],
    {},
    [None, [None]],
    {"": 1, "a.b": 2, "$set": 3, "$": 4, ".": 5, "\u0000": 6, "_id": 7, "é": 8},
    {"b": 1, "a": 2, "c": {"z": 1, "y": 2}},
    [1, 1.0, "1", True, None],
    _nested(JSON_DEPTH),
)


@pytest.mark.parametrize("frozen", [False, True], ids=["hot", "cold"])
async def test_json_values_come_back_as_they_were(backend: Backend, ledger: Ledger, frozen: bool) -> None:
    await asyncio.gather(*[ledger.commit(edit("n", body=value)) for value in VALUES])
    if frozen:
        await announce_all(ledger)
        await ledger.freeze(NOTE, TENANT, "n", len(VALUES), limit=100)
    again = await backend.reopen(ledger)

    records = await again.history(NOTE, TENANT, "n", limit=100)
    assert [repr(record.value.body) for record in records] == [repr(value) for value in VALUES]
    head = await again.head(NOTE, TENANT, "n")
    assert head
    assert head.value
    assert head.value.body == VALUES[-1]
    for record in records:
        if record.snapshot is not None:
            assert repr(record.snapshot.body) == repr(record.value.body)


async def test_large_values_are_kept_many_at_a_time(backend: Backend, ledger: Ledger) -> None:
    """Together the values exceed a store's limit for a message or document."""
    many = 40
    text = "\u00e9x" * (STATE_BYTES // 3)
    writes = [edit(f"n{number}", body=f"{number}{text}") for number in range(many)]
    await asyncio.gather(*[ledger.commit(each) for each in writes])
    again = await backend.reopen(ledger)

    for number in range(many):
        record = await again.record(NOTE, TENANT, f"n{number}", 1)
        assert record
        assert record.value.body == f"{number}{text}"
    heads = await again.heads(NOTE, TENANT, [f"n{number}" for number in range(many)])
    assert len(heads) == many


async def test_large_records_of_one_key_freeze_and_come_back(ledger: Ledger) -> None:
    """A chunk of cold storage has a limit in bytes, too."""
    text = "".join(chr(0x4E00 + number * 7919 % 20_000) for number in range(STATE_BYTES // 3))
    many = 40
    await asyncio.gather(*[ledger.commit(edit("n", body=f"{number}{text}")) for number in range(many)])
    await announce_all(ledger)

    assert await ledger.freeze(NOTE, TENANT, "n", many, limit=100) == many

    for start in range(0, many, 10):
        records = await ledger.history(NOTE, TENANT, "n", after=start, limit=10)
        assert [record.value.body for record in records] == [f"{number}{text}" for number in range(start, start + 10)]


def _bodies() -> list[Any]:
    """Return bodies around the size from which bodies are compressed, compressible ones and random ones."""
    random_ = random.Random(3)
    return [
        "x" * 7_000,
        "x" * 9_000,
        "".join(random_.choices('\u00e9\u4e00\U0001f41d"\\\x00{', k=20_000)),
        "".join(chr(random_.randrange(0x20, 0xD800)) for _ in range(20_000)),
        [{"number": number, "text": f"{number * 7919}"} for number in range(2_000)],
        "small",
    ]


@pytest.mark.parametrize("frozen", [0, 3, 6])
async def test_bodies_of_any_size_come_back_hot_and_cold(backend: Backend, ledger: Ledger, frozen: int) -> None:
    """The fourth record also stores the whole head."""
    bodies = _bodies()
    for number, body in enumerate(bodies):
        await ledger.commit(edit("n", body=body, told=Told(request_id=f"r{number}")))
    written = await ledger.head(NOTE, TENANT, "n")
    await announce_all(ledger)
    await ledger.freeze(NOTE, TENANT, "n", frozen, limit=2)
    await ledger.freeze(NOTE, TENANT, "n", frozen, limit=100)
    again = await backend.reopen(ledger)

    records = await again.history(NOTE, TENANT, "n", limit=100)
    assert [record.value.body for record in records] == bodies
    assert records[3].snapshot.body == bodies[3]
    assert await again.head(NOTE, TENANT, "n") == written
    page = await again.find(NOTE, TENANT, "recent", equals={}, limit=9)
    assert [head.value and head.value.body for head in page.items] == [bodies[-1]]
    assert (await again.commit(edit("n", "and on"))).head.body == bodies[-1]
    for number, body in enumerate(bodies):
        repeated = await again.commit(edit("n", told=Told(request_id=f"r{number}")))
        assert (repeated.duplicate, repeated.record.body) == (True, body)


async def test_number_that_no_store_can_keep_fails_alone(ledger: Ledger) -> None:
    queued = [ledger.commit(edit("n", add=1)), ledger.commit(edit("n", body=10**30)), ledger.commit(edit("n", add=1))]
    first, huge, last = await asyncio.gather(*queued, return_exceptions=True)

    assert isinstance(huge, Exception)
    assert not isinstance(first, BaseException)
    assert not isinstance(last, BaseException)
    assert last.head.total == 2


async def test_head_that_no_store_can_keep_fails_alone(ledger: Ledger) -> None:
    """Each record is valid, but their sum exceeds 64 bits."""
    queued = [
        ledger.commit(edit("n", add=2**62)),
        ledger.commit(edit("m", add=1)),
        *[ledger.commit(edit("n", add=2**62)) for _ in range(4)],
        ledger.commit(edit("n", add=-(2**62))),
        ledger.commit(edit("m", add=1)),
    ]
    outcomes = await asyncio.gather(*queued, return_exceptions=True)

    heads = await ledger.heads(NOTE, TENANT, ["n", "m"])
    for id, adds in (("n", [2**62] * 5 + [-(2**62)]), ("m", [1, 1])):
        head = heads[id]
        kept = [o for o in outcomes if not isinstance(o, BaseException) and o.stamp and o.stamp.id == id]
        assert head.value
        assert head.version == len(kept)
        assert head.value.total == sum(outcome.record.add for outcome in kept)
        assert len(kept) < len(adds) if id == "n" else len(kept) == len(adds)
