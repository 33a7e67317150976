"""The cost of calls by the server's own profile: documents read per answer, and number of commits."""

import asyncio
from collections.abc import AsyncIterator, Generator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest
from pymongo import MongoClient

from hivemem_runtime.ledger.entity import AnyEntity
from hivemem_runtime.ledger.mongo import MongoLedger
from hivemem_runtime.ledger.port import Append, Ledger, Write
from hivemem_testing.contract import Server

from .backends import within
from .clock import SECOND, ManualClock
from .entities import COUNTER, ENTITIES, GAUGE, NOTE, CounterSet
from .waiting import announce_all
from .writes import TENANT, Told, count, edit, gauge, write

Client = MongoClient[dict[str, Any]]
VERSIONS = 10_000


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def ledger(mongo_server: Server, database: str, clock: ManualClock) -> AsyncIterator[Ledger]:
    ledger = MongoLedger(mongo_server.url, ENTITIES, database=database, clock=clock)
    await ledger.open()
    yield ledger
    await within(ledger.close())


@contextmanager
def profiled(client: Client, database: str, collection: str) -> Generator[list[Mapping[str, Any]]]:
    """Profile a collection while the block runs; the list has its commands afterwards."""
    seen: list[Mapping[str, Any]] = []
    client[database].command("profile", 2)
    yield seen
    client[database].command("profile", 0)
    seen += client[database]["system.profile"].find({"ns": f"{database}.{collection}"})
    client[database]["system.profile"].drop()


def _read(seen: list[Mapping[str, Any]]) -> tuple[int, int, int]:
    """Return the number of commands, and the numbers of keys and documents that they examined."""
    keys, documents = (sum(each.get(what, 0) for each in seen) for what in ("keysExamined", "docsExamined"))
    return len(seen), keys, documents


def _counts(id: str, values: range) -> Write:
    return write(COUNTER, id, lambda _heads, _now: [Append(COUNTER, id, CounterSet(value)) for value in values])


async def _many_versions(ledger: Ledger, clock: ManualClock) -> list[int]:
    """Write one key with very many versions and fifty with two; return moments between versions of the first."""
    moments: list[int] = []
    for start in range(0, VERSIONS, 1000):
        moments.append(clock.advance() - 1)
        await ledger.commit(_counts("long", range(start, start + 1000)))
    for _ in range(2):
        moments.append(clock.advance())
        await asyncio.gather(*[ledger.commit(count(f"c{number:02}")) for number in range(50)])
    return moments


async def test_as_of_reads_one_record_a_key_however_many_versions_it_has(
    ledger: Ledger, clock: ManualClock, mongo_client: Client, database: str
) -> None:
    moments = await _many_versions(ledger, clock)
    ids = ["long", *(f"c{number:02}" for number in range(50))]

    for place, at in enumerate(moments):
        with profiled(mongo_client, database, "counter_records") as seen:
            found = await ledger.as_of(COUNTER, TENANT, ids, at)
        commands, keys, documents = _read(seen)
        assert (found["long"].value.value if place else None) == (min(place, 10) * 1000 - 1 if place else None)
        assert commands == 1
        assert keys <= 2 * len(ids)
        assert documents <= len(ids)


async def test_version_at_is_one_step(ledger: Ledger, clock: ManualClock, mongo_client: Client, database: str) -> None:
    moments = await _many_versions(ledger, clock)

    with profiled(mongo_client, database, "counter_records") as seen:
        assert await ledger.version_at(COUNTER, TENANT, "long", moments[3] + SECOND // 2) == 3000 + 1000
    assert _read(seen) == (1, 1, 1)


async def test_cold_records_are_asked_for_only_where_there_is_no_hot_one(
    ledger: Ledger, clock: ManualClock, mongo_client: Client, database: str
) -> None:
    await ledger.commit(_counts("cold", range(600)))
    clock.advance()
    await ledger.commit(count("hot"))
    await announce_all(ledger)
    await ledger.freeze(COUNTER, TENANT, "cold", 600, limit=1000)

    for ids, asked in ((["hot"], 0), (["hot", "cold"], 1)):
        with profiled(mongo_client, database, "counter_cold") as seen:
            assert set(await ledger.as_of(COUNTER, TENANT, ids, clock.now)) == set(ids)
        commands, _, documents = _read(seen)
        assert (commands, documents) == (asked, asked)


@pytest.mark.parametrize(
    ("index", "equals"), [("ids", {}), ("board_ids", {"board": "red"}), ("by_text", {"board": "red", "shade": "plain"})]
)
async def test_covered_and_count_read_the_index_and_no_head(
    ledger: Ledger, mongo_client: Client, database: str, index: str, equals: dict[str, Any]
) -> None:
    await asyncio.gather(*[ledger.commit(edit(f"n{number:03}", f"{number:03}", board="red")) for number in range(200)])

    with profiled(mongo_client, database, "note_heads") as seen:
        page = await ledger.covered(NOTE, TENANT, index, equals=equals, limit=20)
        await ledger.covered(NOTE, TENANT, index, equals=equals, limit=20, cursor=page.cursor, reverse=True)
        assert await ledger.count(NOTE, TENANT, index, equals=equals) == 200
    _, keys, documents = _read(seen)
    assert documents == 0
    assert keys <= 21 + 20 + 201


async def test_tenants_takes_one_step_each(ledger: Ledger, mongo_client: Client, database: str) -> None:
    writes = [count(f"c{number}", told=Told(tenant=f"t{number % 3}")) for number in range(300)]
    await asyncio.gather(*[ledger.commit(each) for each in writes])

    with profiled(mongo_client, database, "counter_heads") as seen:
        assert await ledger.tenants(COUNTER) == ["t0", "t1", "t2"]
    commands, keys, documents = _read(seen)
    assert commands == 1
    assert keys <= 2 * 3 + 1
    assert documents == 0


async def test_large_bodies_are_kept_packed_and_small_ones_to_be_read(
    ledger: Ledger, mongo_client: Client, database: str
) -> None:
    for number in range(4):
        await ledger.commit(edit("large", body=f"{number}" * 50_000))
        await ledger.commit(edit("small", body=f"{number}"))

    heads, records = mongo_client[database]["note_heads"], mongo_client[database]["note_records"]
    for id, kind in (("large", bytes), ("small", str)):
        kept = [heads.find_one({"_id.i": id}), *records.find({"_id.i": id})]
        bodies = [each[name] for each in kept if each for name in ("body", "snapshot") if name in each]
        assert [type(body) for body in bodies] == [kind] * 6
        assert all(len(body) < 8 * 1024 for body in bodies)


def _transactions(client: Client) -> int:
    return int(client.admin.command("serverStatus")["transactions"]["totalCommitted"])


async def test_many_erasures_at_once_go_together(ledger: Ledger, mongo_client: Client) -> None:
    ids = [f"c{number:02}" for number in range(80)]
    entities: list[AnyEntity] = [COUNTER, NOTE]
    await asyncio.gather(*[ledger.commit(count(id, told=Told(request_id=id))) for id in ids])
    await asyncio.gather(*[ledger.commit(edit(id)) for id in ids])
    await announce_all(ledger)
    before = _transactions(mongo_client)

    erasing = [ledger.erase(entity, TENANT, id, actor="eve", cause="gdpr") for entity in entities for id in ids]
    stamps = await within(asyncio.gather(*erasing))

    assert [(stamp.entity, stamp.id, stamp.version) for stamp in stamps if stamp] == [
        (entity.name, id, 2) for entity in entities for id in ids
    ]
    assert _transactions(mongo_client) - before <= 4
    assert await ledger.as_of(COUNTER, TENANT, ids, 2**53) == {}


async def test_heads_alone_leave_one_trace_however_often_they_are_written(
    ledger: Ledger, mongo_client: Client, database: str
) -> None:
    for turn in range(10):
        await ledger.commit(gauge("g"))
        await ledger.erase(GAUGE, TENANT, "g", actor="eve", cause=f"{turn}")

    kept = list(mongo_client[database]["requests"].find())
    assert len(kept) == 1
    assert "until" in kept[0]
    assert not {"gauge_records", "gauge_cold"} & set(mongo_client[database].list_collection_names())


async def test_erasure_of_a_head_alone_reads_its_own_requests_and_no_others(
    ledger: Ledger, mongo_client: Client, database: str
) -> None:
    writes = [gauge(f"g{number}", told=Told(request_id=f"{number}", once="o")) for number in range(200)]
    await asyncio.gather(*[ledger.commit(each) for each in writes])

    with profiled(mongo_client, database, "requests") as seen:
        await ledger.erase(GAUGE, TENANT, "g7", actor="eve", cause="gdpr")
    commands, keys, documents = _read(seen)
    assert commands > 0
    assert keys <= 20
    assert documents <= 10
