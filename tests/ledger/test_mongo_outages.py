"""When MongoDB or a connection fails at the worst moment, nothing is lost and nothing is written twice."""

import asyncio
import gc
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from pymongo import MongoClient

from hivemem_contracts.errors import Unavailable
from hivemem_runtime.ledger.mongo import MongoLedger
from hivemem_runtime.ledger.mongo.driver import DriverName
from hivemem_runtime.ledger.port import Committed, Outcome
from hivemem_testing.contract import Server
from hivemem_testing.process import ProcessServer
from hivemem_testing.servers import packaged_mongo

from .backends import within
from .entities import COUNTER, ENTITIES, GAUGE, NOTE, CounterHead
from .losing_proxy import LosingProxy, Loss
from .waiting import announce_all, eventually
from .writes import TENANT, Told, count, count_and_gauge, edit, gauge

DRIVERS: tuple[DriverName, ...] = ("motor", "pymongo")
EACH_TRY = 6
"""More often than a driver and the ledger retry the same commit."""


# PyMongo's asynchronous client leaks a socket when it is closed during a reconnect, which only happens here.
pytestmark = pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")


@pytest.fixture(autouse=True)
def forgotten_sockets() -> Iterator[None]:
    """Collect the sockets while the filter above still applies."""
    yield
    gc.collect()


@pytest.fixture
def proxy(mongo_server: Server) -> Iterator[LosingProxy]:
    with LosingProxy(mongo_server.url) as proxy:
        yield proxy


@pytest.fixture(params=DRIVERS)
async def ledger(request: pytest.FixtureRequest, proxy: LosingProxy, database: str) -> AsyncIterator[MongoLedger]:
    ledger = MongoLedger(proxy.url, ENTITIES, database=database, driver=request.param)
    await ledger.open()
    yield ledger
    await within(ledger.close())


@pytest.mark.parametrize("times", [1, EACH_TRY])
@pytest.mark.parametrize("loss", ["command", "reply"])
async def test_batch_whose_commit_was_not_answered_is_there_once(
    ledger: MongoLedger, proxy: LosingProxy, loss: Loss, times: int
) -> None:
    heard: list[Committed] = []
    ledger.on_commit(heard.extend)
    await ledger.commit(count("c"))
    proxy.lose(loss, "commitTransaction", times)

    outcomes = await within(asyncio.gather(*[ledger.commit(count(f"{id}")) for id in "ccdce"]))

    assert proxy.lost >= 1
    assert [outcome.stamp.version for outcome in outcomes if outcome.stamp] == [2, 3, 1, 4, 1]
    assert not any(outcome.duplicate for outcome in outcomes)
    assert [(each.stamp.id, each.stamp.version) for each in heard[1:]] == [
        ("c", 2),
        ("c", 3),
        ("d", 1),
        ("c", 4),
        ("e", 1),
    ]
    records = await ledger.history(COUNTER, TENANT, "c", limit=9)
    assert [record.value.value for record in records] == [1, 2, 3, 4]


async def test_request_whose_commit_was_not_answered_is_no_duplicate_of_itself(
    ledger: MongoLedger, proxy: LosingProxy
) -> None:
    proxy.lose("reply", "commitTransaction", EACH_TRY)
    told = Told(request_id="r", once="o")

    first = await within(ledger.commit(count("c", told=told)))
    again = await within(ledger.commit(count("c", told=told)))

    assert (first.duplicate, first.head) == (False, CounterHead(1, ""))
    assert (again.duplicate, again.stamp) == (True, first.stamp)


@pytest.mark.parametrize("loss", ["command", "reply"])
async def test_batch_that_was_cut_off_before_its_commit_is_written_again(
    ledger: MongoLedger, proxy: LosingProxy, loss: Loss
) -> None:
    await ledger.commit(count("c"))
    proxy.lose(loss, "bulkWrite", 1)

    outcomes = await within(asyncio.gather(*[ledger.commit(count("c")) for _ in range(3)]))

    assert proxy.lost == 1
    assert [outcome.head.value for outcome in outcomes] == [2, 3, 4]


@pytest.mark.parametrize("loss", ["command", "reply"])
async def test_erasure_whose_commit_was_not_answered_is_one_erasure(
    ledger: MongoLedger, proxy: LosingProxy, loss: Loss
) -> None:
    heard: list[Committed] = []
    await ledger.commit(edit("n", "a"))
    await announce_all(ledger)
    ledger.on_commit(heard.extend)
    proxy.lose(loss, "commitTransaction", EACH_TRY)

    stamp = await within(ledger.erase(NOTE, TENANT, "n", actor="eve", cause=None))

    assert stamp
    assert stamp.version == 2
    assert [each.stamp for each in heard] == [stamp]
    assert await ledger.history(NOTE, TENANT, "n", limit=9) == []


@pytest.fixture
async def other(mongo_server: Server, database: str, ledger: MongoLedger) -> AsyncIterator[MongoLedger]:
    """Another process on the same store, whose connection loses nothing."""
    other = MongoLedger(mongo_server.url, ENTITIES, database=database)
    await other.open()
    yield other
    await within(other.close())


async def _meanwhile(proxy: LosingProxy, other: MongoLedger) -> list[Outcome]:
    """Write to the gauge from another process as soon as something is lost."""

    async def lost() -> bool:
        return proxy.lost > 0

    await eventually(lost, "something is lost")
    return [await within(other.commit(gauge("g"))) for _ in range(3)]


@pytest.mark.parametrize("times", [1, EACH_TRY])
@pytest.mark.parametrize("loss", ["command", "reply"])
async def test_heads_alone_whose_commit_was_not_answered_are_written_once(
    ledger: MongoLedger, other: MongoLedger, proxy: LosingProxy, loss: Loss, times: int
) -> None:
    """Others continue to write the key, so its head no longer names the earlier write."""
    heard: list[Committed] = []
    ledger.on_commit(heard.extend)
    await ledger.commit(gauge("g"))
    proxy.lose(loss, "commitTransaction", times)

    writing = asyncio.gather(*[ledger.commit(gauge("g", told=Told(request_id=f"{number}"))) for number in range(3)])
    meanwhile = await _meanwhile(proxy, other)
    outcomes = await within(writing)

    assert not any(outcome.duplicate for outcome in outcomes)
    stamps = [outcome.stamp for outcome in (*outcomes, *meanwhile) if outcome.stamp]
    assert sorted(stamp.version for stamp in stamps) == list(range(2, 5 + len(meanwhile)))
    assert [each.stamp for each in heard[1:]] == [outcome.stamp for outcome in outcomes]
    assert {outcome.stamp.version: outcome.head.value for outcome in (*outcomes, *meanwhile) if outcome.stamp} == {
        stamp.version: stamp.version for stamp in stamps
    }
    again = await within(ledger.commit(gauge("g", told=Told(request_id="0"))))
    assert (again.duplicate, again.stamp) == (True, outcomes[0].stamp)


async def test_batch_of_both_kinds_whose_commit_was_not_answered_is_there_once(
    ledger: MongoLedger, proxy: LosingProxy
) -> None:
    proxy.lose("reply", "commitTransaction", EACH_TRY)

    outcomes = await within(
        asyncio.gather(*[ledger.commit(count_and_gauge("g", gauge_first=number % 2 == 0)) for number in range(4)])
    )

    assert [outcome.stamp.version for outcome in outcomes if outcome.stamp] == [1, 2, 3, 4]
    head = await ledger.head(GAUGE, TENANT, "g")
    assert head
    assert (head.version, head.value and head.value.value) == (4, 4)


@pytest.mark.parametrize("loss", ["command", "reply"])
async def test_erasure_whose_commit_was_not_answered_takes_nothing_that_came_after_it(
    ledger: MongoLedger, other: MongoLedger, proxy: LosingProxy, loss: Loss
) -> None:
    heard: list[Committed] = []
    await ledger.commit(gauge("g"))
    ledger.on_commit(heard.extend)
    proxy.lose(loss, "commitTransaction", EACH_TRY)

    erasing = asyncio.ensure_future(ledger.erase(GAUGE, TENANT, "g", actor="eve", cause=None))
    meanwhile = await _meanwhile(proxy, other)
    stamp = await within(erasing)

    assert stamp
    assert [each.stamp for each in heard] == [stamp]
    versions = [outcome.stamp.version for outcome in meanwhile if outcome.stamp]
    assert sorted([1, stamp.version, *versions]) == list(range(1, 3 + len(versions)))
    head = await ledger.head(GAUGE, TENANT, "g")
    assert head
    assert (head.value.value if head.value else 0) == head.version - stamp.version


async def test_erasure_that_was_cut_off_is_finished_by_the_next_process(
    ledger: MongoLedger, proxy: LosingProxy, mongo_client: MongoClient[dict[str, Any]], database: str
) -> None:
    for number in range(3):
        await ledger.commit(edit("n", f"{number}"))
    left = {"_id": {"e": "note", "t": TENANT, "i": "n"}, "through": 2, "keep": 0}
    mongo_client[database]["purges"].insert_one(left)

    other = MongoLedger(proxy.url, ENTITIES, database=database)
    await other.open()
    try:
        records = await other.history(NOTE, TENANT, "n", limit=9)
    finally:
        await other.close()

    assert [record.stamp.version for record in records] == [3]
    assert mongo_client[database]["purges"].count_documents({}) == 0


@pytest.fixture(params=DRIVERS)
def driver(request: pytest.FixtureRequest) -> DriverName:
    name: DriverName = request.param
    return name


@pytest.fixture
def mortal(tmp_path: Path) -> Iterator[ProcessServer]:
    with packaged_mongo(tmp_path) as server:
        yield server


async def test_store_that_is_killed_loses_nothing_acknowledged_and_is_used_again(
    mortal: ProcessServer, driver: DriverName
) -> None:
    # Longer than a driver waits between two checks of a server that is away.
    url = mortal.url + "&serverSelectionTimeoutMS=1500"
    ledger = MongoLedger(url, ENTITIES, database="mortal", driver=driver)
    await ledger.open()
    acknowledged: list[int] = []

    async def work() -> None:
        while True:
            outcome = await ledger.commit(count("c"))
            acknowledged.append(outcome.head.value)
            if len(acknowledged) == 200:
                mortal.kill()

    refusals = await within(asyncio.gather(*[work() for _ in range(8)], return_exceptions=True))
    assert all(isinstance(refusal, Unavailable) and "retry_after_ms" in refusal.context for refusal in refusals)
    queued = [ledger.commit(count("c")) for _ in range(600)]
    assert all(isinstance(each, Unavailable) for each in await within(asyncio.gather(*queued, return_exceptions=True)))
    with pytest.raises(Unavailable):
        await ledger.check()
    with pytest.raises(Unavailable):
        await ledger.head(COUNTER, TENANT, "c")

    mortal.start()
    await ledger.check()
    outcome = await within(ledger.commit(count("c")))
    records = await ledger.history(COUNTER, TENANT, "c", limit=2_000)
    await within(ledger.close())

    assert outcome.head.value > max(acknowledged)
    assert [record.value.value for record in records] == list(range(1, outcome.head.value + 1))


async def test_store_that_was_restarted_in_between_is_not_noticed(mortal: ProcessServer, driver: DriverName) -> None:
    ledger = MongoLedger(mortal.url, ENTITIES, database="mortal", driver=driver)
    await ledger.open()
    await ledger.commit(count("c"))
    mortal.restart()

    outcome = await within(ledger.commit(count("c")))
    await within(ledger.close())

    assert outcome.head == CounterHead(2, "")


async def test_store_that_is_not_there_is_unavailable_from_the_start(driver: DriverName) -> None:
    url = "mongodb://127.0.0.1:9/?serverSelectionTimeoutMS=100"
    with pytest.raises(Unavailable):
        await MongoLedger(url, ENTITIES, database="nowhere", driver=driver).open()
