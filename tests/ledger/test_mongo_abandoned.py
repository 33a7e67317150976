"""A worker that dies or hangs in the middle of a transaction blocks its locks only briefly."""

from collections.abc import AsyncIterator, Generator
from contextlib import contextmanager
from typing import Any

import pytest
from pymongo import MongoClient
from pymongo.client_session import ClientSession
from pymongo.errors import OperationFailure

from hivemem_contracts.errors import Unavailable
from hivemem_runtime.ledger.mongo import MongoLedger
from hivemem_runtime.ledger.mongo.documents import head_id, heads_of
from hivemem_runtime.ledger.mongo.driver import APPLICATION
from hivemem_runtime.ledger.port import Ledger, Outcome, Write
from hivemem_testing.contract import Server

from .backends import within
from .entities import COUNTER, ENTITIES
from .waiting import announce_all
from .writes import TENANT, count


@pytest.fixture
async def ledger(mongo_server: Server, database: str) -> AsyncIterator[Ledger]:
    ledger = MongoLedger(mongo_server.url, ENTITIES, database=database)
    await ledger.open()
    yield ledger
    await within(ledger.close())


@contextmanager
def frozen_in_a_transaction(url: str, database: str, id: str, application: str) -> Generator[ClientSession]:
    """Another process that has changed a head and does not commit."""
    with MongoClient[dict[str, Any]](url, appname=application) as client, client.start_session() as session:
        session.start_transaction()
        heads = client[database][heads_of(COUNTER.name)]
        heads.update_one({"_id": head_id(TENANT, id)}, {"$set": {"guard": "frozen"}}, session=session)
        yield session


async def insist(ledger: Ledger, write: Write) -> Outcome:
    """Retry while the store is unavailable, as callers do."""
    while True:
        try:
            return await ledger.commit(write)
        except Unavailable:
            continue


async def test_locks_of_a_worker_that_stands_still_are_waited_for_only_shortly(
    ledger: Ledger, mongo_server: Server, database: str
) -> None:
    await ledger.commit(count("c"))
    with frozen_in_a_transaction(mongo_server.url, database, "c", APPLICATION) as session:
        outcome = await within(insist(ledger, count("c")))
        assert outcome.head.value == 2
        with pytest.raises(OperationFailure, match="aborted") as caught:
            session.commit_transaction()
        assert caught.value.has_error_label("TransientTransactionError")


async def test_marks_wait_for_such_locks_only_shortly(ledger: Ledger, mongo_server: Server, database: str) -> None:
    """Marks are written outside of a transaction, and such a write waits inside the server."""
    await ledger.commit(count("c"))
    with frozen_in_a_transaction(mongo_server.url, database, "c", APPLICATION):
        await within(announce_all(ledger))


async def test_transactions_of_other_applications_are_left_alone(
    ledger: Ledger, mongo_server: Server, mongo_client: MongoClient[dict[str, Any]], database: str
) -> None:
    await ledger.commit(count("c"))
    await ledger.commit(count("d"))
    with (
        frozen_in_a_transaction(mongo_server.url, database, "d", "another") as session,
        frozen_in_a_transaction(mongo_server.url, database, "c", APPLICATION),
    ):
        await within(insist(ledger, count("c")))
        session.commit_transaction()
    head = mongo_client[database][heads_of(COUNTER.name)].find_one({"_id": head_id(TENANT, "d")})
    assert head is not None
    assert head["guard"] == "frozen"
