"""Another worker finishes an erasure that is interrupted after the tombstone, before anything below it is gone."""

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest
from pymongo import MongoClient

from hivemem_contracts.errors import NotFound
from hivemem_runtime.ledger.entity import AnyEntity
from hivemem_runtime.ledger.mongo.documents import PURGES, REQUESTS
from hivemem_runtime.ledger.mongo.driver import Database
from hivemem_runtime.ledger.mongo.erasing import Erasure, bury
from hivemem_runtime.ledger.mongo.workbench import Workbench
from hivemem_runtime.ledger.port import Ledger, RequestId
from hivemem_testing.contract import Server

from .backends import Backend, MongoStore
from .entities import COUNTER, ENTITIES, GAUGE, NOTE
from .waiting import announce_all
from .writes import TENANT, Told, count, edit, gauge

MEMORY = 600 * 1_000_000


@pytest.fixture
async def backend(
    mongo_server: Server, mongo_client: MongoClient[dict[str, Any]], database: str
) -> AsyncIterator[Backend]:
    backend = Backend(MongoStore(mongo_server.url, database, "motor", mongo_client))
    yield backend
    await backend.close_all()


@pytest.fixture
async def ledger(backend: Backend) -> Ledger:
    """A ledger with a note of nine lines, four of them cold, a count and a gauge; erasures wrote tombstones only."""
    ledger = await backend.open()
    for number in range(1, 10):
        await ledger.commit(edit("n", f"{number}", line=True, told=Told(request_id=f"r{number}", once=f"o{number}")))
    await ledger.commit(count("c", told=Told(request_id="counted")))
    await ledger.commit(gauge("g", told=Told(request_id="gauged", once="o")))
    await announce_all(ledger)
    await ledger.freeze(NOTE, TENANT, "n", 4, limit=9)
    assert isinstance(backend.store, MongoStore)
    database = Database(backend.store.url, backend.store.database)
    bench = Workbench(database, {entity.name: entity for entity in ENTITIES}, backend.clock, MEMORY)
    keys: list[tuple[AnyEntity, str]] = [(NOTE, "n"), (COUNTER, "c"), (GAUGE, "g")]
    await bury(bench, [Erasure(entity, TENANT, id, "eve", "gdpr", 0) for entity, id in keys])
    await bench.close()
    await database.close()
    return ledger


async def _is_finished(backend: Backend, ledger: Ledger) -> None:
    assert await ledger.history(NOTE, TENANT, "n", limit=99) == []
    await announce_all(ledger)
    for number in range(1, 10):
        with pytest.raises(NotFound):
            await ledger.commit(edit("n", told=Told(request_id=f"r{number}")))
    assert (await ledger.commit(edit("n", told=Told(once="o1")))).duplicate is False
    assert isinstance(backend.store, MongoStore)
    pending = backend.store.client[backend.store.database][PURGES].find({"_id.e": "note"})
    assert list(pending) == []


async def test_next_process_that_opens_finishes_it(backend: Backend, ledger: Ledger) -> None:
    other = await backend.open()

    await _is_finished(backend, other)
    assert await other.history(COUNTER, TENANT, "c", limit=9) == []


async def test_requests_of_a_head_alone_are_found_without_records(backend: Backend, ledger: Ledger) -> None:
    await ledger.commit(gauge("g", told=Told(request_id="a new life", once="another")))
    await backend.open()

    assert isinstance(backend.store, MongoStore)
    requests = list(backend.store.client[backend.store.database][REQUESTS].find({"entity": "gauge"}, {"until": 0}))
    spent: dict[str, Any] = {"_id": f"request/{TENANT}/gauged", "entity": "gauge", "spent": True}
    assert spent in requests
    assert sorted(each["_id"] for each in requests) == sorted(
        [spent["_id"], f"request/{TENANT}/a new life", f"once/gauge/{TENANT}/g/another"]
    )
    with pytest.raises(NotFound):
        await ledger.commit(gauge("g", told=Told(request_id="gauged")))
    assert (await ledger.commit(gauge("g", told=Told(once="another")))).duplicate


async def test_whoever_asks_again_finishes_it(backend: Backend, ledger: Ledger) -> None:
    stamp = await ledger.erase(NOTE, TENANT, "n", actor="eve", cause="gdpr")

    assert stamp
    assert stamp.version == 10
    await _is_finished(backend, ledger)


async def test_later_erasure_keeps_nothing_that_it_would_have_taken(backend: Backend, ledger: Ledger) -> None:
    await ledger.erase(NOTE, TENANT, "n", actor="eve", cause="gdpr", keep_through_position=9)

    await _is_finished(backend, ledger)


async def test_key_is_as_good_as_gone_meanwhile(backend: Backend, ledger: Ledger) -> None:
    note, counter = await ledger.head(NOTE, TENANT, "n"), await ledger.head(COUNTER, TENANT, "c")
    assert note
    assert counter
    assert (note.version, note.value, counter.version, counter.value) == (10, None, 2, None)
    assert await ledger.count(NOTE, TENANT, "ids", equals={}) == 0
    assert await ledger.freeze(NOTE, TENANT, "n", 9, limit=9) == 0
    for late, request_id in ((count("c"), "counted"), (edit("n"), "r9"), (gauge("g"), "gauged")):
        with pytest.raises(NotFound):
            await ledger.commit(replace(late, request_id=RequestId(request_id)))
    await announce_all(ledger)
    assert (await ledger.commit(edit("n", told=Told(once="o1")))).duplicate is False
