"""Data of each older version opens, and keeps all promises.

`data/mongo_version_1.jsonl` was written by the release of that version with the entities of this suite: a note of nine
lines, five of them cold; an erased note; a note that came together with a count; a request that found nothing to do.
The release of version 2 opened the same data and added two gauges.
"""

import asyncio
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from bson.json_util import loads
from pymongo import MongoClient

from hivemem_contracts.errors import IdempotencyConflict, NotFound
from hivemem_runtime.ledger.mongo.schema import DATA_VERSION
from hivemem_runtime.ledger.port import Covered, Head, Ledger
from hivemem_testing.contract import Server

from .backends import Backend, MongoStore
from .entities import COUNTER, NOTE, CounterHead
from .waiting import announce_all
from .writes import TENANT, Told, count, edit, gauge, note_and_count, nothing

DATA = Path(__file__).parent / "data"


@pytest.fixture(params=[1, 2])
async def old(
    request: pytest.FixtureRequest, mongo_server: Server, mongo_client: MongoClient[dict[str, Any]]
) -> AsyncIterator[Backend]:
    database = f"test_{uuid.uuid4().hex}"
    kept: dict[str, list[dict[str, Any]]] = {}
    for line in (DATA / f"mongo_version_{request.param}.jsonl").read_text().splitlines():
        for collection, document in loads(line).items():
            kept.setdefault(collection, []).append(document)
    for collection, documents in kept.items():
        mongo_client[database][collection].insert_many(documents)
    backend = Backend(MongoStore(mongo_server.url, database, "motor", mongo_client))
    yield backend
    await backend.close_all()
    mongo_client.drop_database(database)


@pytest.fixture
async def ledger(old: Backend) -> Ledger:
    return await old.open()


async def test_records_and_heads_are_there(ledger: Ledger) -> None:
    records = await ledger.history(NOTE, TENANT, "n", limit=99)

    assert [record.value.text for record in records] == [f"line {number}" for number in range(1, 10)]
    heads = await ledger.heads(NOTE, TENANT, ["n", "gone", "both"])
    assert {id: head.value and head.value.total for id, head in heads.items()} == {"n": 45, "gone": None, "both": 1}
    assert heads["gone"] == Head("gone", 3, 1_700_000_016_000_000, None)
    assert await ledger.head(COUNTER, TENANT, "c") == Head("c", 2, 1_700_000_012_000_000, CounterHead(6, ""))
    past = await ledger.as_of(NOTE, TENANT, ["n", "both"], 1_700_000_003_500_000)
    assert {id: record.stamp.version for id, record in past.items()} == {"n": 3}
    counted = await ledger.as_of(COUNTER, TENANT, ["c"], 1_700_000_011_000_000)
    assert counted["c"].value.value == 5


async def test_indexes_of_today_find_what_is_there(ledger: Ledger) -> None:
    covered = await ledger.covered(NOTE, TENANT, "ids", equals={}, limit=9)

    assert covered.items == [
        Covered("both", {"total": 1, "pinned": False, "text": "both", "board": None}),
        Covered("n", {"total": 45, "pinned": False, "text": "line 9", "board": "red"}),
    ]
    assert await ledger.count(NOTE, TENANT, "ids", equals={}) == 2
    assert await ledger.tenants(NOTE) == [TENANT, "zeta"]


async def test_requests_are_answered_as_before(ledger: Ledger) -> None:
    for number in range(1, 10):
        for told in (Told(request_id=f"r{number}"), Told(once=f"o{number}")):
            again = await ledger.commit(edit("n", told=told))
            assert again.stamp
            assert (again.duplicate, again.stamp.version, again.record.text) == (True, number, f"line {number}")
    assert (await ledger.commit(count("c", told=Told(request_id="counted")))).duplicate
    did_nothing = await ledger.commit(nothing("c", told=Told(request_id="nothing")))
    assert (did_nothing.duplicate, did_nothing.stamp) == (True, None)


@pytest.mark.parametrize("old", [2], indirect=True)
async def test_requests_of_what_keeps_no_history_are_answered_as_before(ledger: Ledger) -> None:
    for id, told in (("g1", Told(request_id="g1", digest=b"any")), ("g2", Told(once="go1"))):
        again = await ledger.commit(gauge(id, told=told))
        assert again.stamp
        assert (again.duplicate, again.stamp.id, again.stamp.version) == (True, id, 1)


async def test_requests_without_a_digest_match_any_command(ledger: Ledger) -> None:
    for digest in (b"one", b"another"):
        assert (await ledger.commit(edit("n", told=Told(request_id="r9", digest=digest)))).duplicate
        assert (await ledger.commit(nothing("c", told=Told(request_id="nothing", digest=digest)))).duplicate
        assert (await ledger.commit(count("new", told=Told(request_id="new", digest=b"one")))).stamp
    with pytest.raises(IdempotencyConflict):
        await ledger.commit(count("new", told=Told(request_id="new", digest=b"another")))


async def test_erasure_spends_the_requests_of_hot_and_cold_records(old: Backend, ledger: Ledger) -> None:
    await announce_all(ledger)
    await ledger.erase(NOTE, TENANT, "n", actor="eve", cause=None)
    await announce_all(ledger)

    again = await old.reopen(ledger)
    for number in range(1, 10):
        with pytest.raises(NotFound, match="erased"):
            await again.commit(edit("n", told=Told(request_id=f"r{number}")))
        assert (await again.commit(edit("n", told=Told(once=f"o{number}")))).duplicate is False
    assert (await again.commit(edit("n", told=Told(tenant="zeta", request_id="r1")))).duplicate
    assert (await again.commit(note_and_count("both", "c", "both", told=Told(request_id="both")))).duplicate


async def test_life_goes_on(old: Backend, ledger: Ledger) -> None:
    await announce_all(ledger)
    more = await ledger.commit(edit("n", "line 10", add=10, told=Told(request_id="r10")))
    large = await ledger.commit(edit("large", body="x" * 100_000, board="red"))
    await ledger.commit(edit("gone", "anew"))

    assert more.head.total == 55
    for each in (ledger, await old.open()):
        head = await each.head(NOTE, TENANT, "large")
        assert head
        assert head.value == large.head
        covered = await each.covered(NOTE, TENANT, "board_ids", equals={"board": "red"}, limit=9)
        assert [found.id for found in covered.items] == ["large", "n"]
        assert await each.count(NOTE, TENANT, "ids", equals={}) == 4


async def test_older_release_will_not_take_it_for_its_own(
    old: Backend, ledger: Ledger, mongo_client: MongoClient[dict[str, Any]]
) -> None:
    assert isinstance(old.store, MongoStore)
    kept = mongo_client[old.store.database]["meta"].find_one({"_id": "data"})

    assert kept == {"_id": "data", "version": DATA_VERSION}
    assert DATA_VERSION > 1


async def test_two_processes_that_migrate_at_once_do_not_disturb_one_another(old: Backend) -> None:
    for ledger in await asyncio.gather(*[old.open() for _ in range(3)]):
        assert len(await ledger.history(NOTE, TENANT, "n", limit=99)) == 9
