"""A recall never takes the index for current because the feed has become shorter, and its wait ends."""

import asyncio
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from nats.aio.client import Client

from hivemem_contracts.changes import Change
from hivemem_contracts.streams import CHANGES
from hivemem_contracts.subjects import Address
from hivemem_runtime.bus.connection import connect
from hivemem_runtime.bus.jetstream import ask
from hivemem_runtime.bus.requests.outgoing import Asking
from hivemem_runtime.bus.streams import StreamSettings, declare
from hivemem_runtime.ledger.places import place_of
from hivemem_runtime.ledger.port import Append, Write
from hivemem_runtime.ledger.sqlite import SqliteLedger
from hivemem_testing.feed import announced
from hivemem_testing.servers import packaged_nats
from hivemem_vectors.pipeline.endpoints.peers import MEMORIES, FeedPosition, MemoryService, SessionService
from hivemem_vectors.pipeline.entities import ITEM, SYNCED, Item
from hivemem_vectors.recall.endpoints.waiting import IndexWaiters
from hivemem_vectors.worker import ENTITIES

from .shelf import NAMESPACE

TENANT = "acme"
SHORT_SECONDS = 0.3
LONG_SECONDS = 20.0


class Quiet(MemoryService):
    """A memory service without recent writes."""

    async def written_since(self, tenant: str, prefix: str, moment: int, *, limit: int) -> list[dict[str, Any]]:
        return []


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[Client]:
    with packaged_nats(tmp_path / "bus") as server:
        client = await connect(server.url, "tests")
        await declare(client, StreamSettings())
        yield client
        await client.close()


@pytest.fixture
async def ledger(tmp_path: Path) -> AsyncIterator[SqliteLedger]:
    ledger = SqliteLedger(tmp_path / "vectors.db", ENTITIES)
    await ledger.open()
    yield ledger
    await ledger.close()


@pytest.fixture
async def behind(ledger: SqliteLedger, client: Client) -> AsyncIterator[IndexWaiters]:
    behind = IndexWaiters(ledger, Quiet(Asking()), SessionService(Asking()))
    await behind.start(client)
    yield behind
    await behind.stop()


async def follow(client: Client, start: int = 1) -> None:
    """Create the consumer of a worker that does not react at the moment."""
    config = {
        "name": MEMORIES,
        "durable_name": MEMORIES,
        "filter_subject": "hive.chg.*.memory.>",
        "ack_policy": "explicit",
        "deliver_policy": "by_start_sequence",
        "opt_start_seq": start,
    }
    await ask(client, f"CONSUMER.CREATE.{CHANGES}.{MEMORIES}", {"stream_name": CHANGES, "config": config})


async def tell(client: Client, key: str, version: int = 1) -> None:
    change = Change(
        entity="memory",
        operation="put",
        tenant=TENANT,
        namespace=NAMESPACE,
        key=key,
        version=version,
        value={},
        actor="bot",
        at=datetime.now(UTC),
    )
    subject, body, headers = await announced(client, change, Address(tuple(NAMESPACE.split(":")), key))
    await client.request(subject, body, timeout=10, headers=headers)


async def hear(ledger: SqliteLedger, key: str, version: int = 1) -> None:
    append = Append(ITEM, place_of(NAMESPACE, key), Item(version, False, SYNCED, version, 1))
    await ledger.commit(Write(TENANT, "test", ITEM, append.id, lambda heads, now: [append]))


async def caught_up(behind: IndexWaiters, seconds: float) -> bool:
    return await behind.caught_up(TENANT, NAMESPACE, asyncio.get_running_loop().time() + seconds)


async def test_a_consumer_that_is_ahead_of_the_feed_vouches_for_nothing(
    client: Client, ledger: SqliteLedger, behind: IndexWaiters
) -> None:
    await follow(client, start=5)
    await tell(client, "a")
    assert not await caught_up(behind, SHORT_SECONDS)
    await ask(client, f"CONSUMER.DELETE.{CHANGES}.{MEMORIES}")
    await follow(client)
    assert not await caught_up(behind, SHORT_SECONDS)
    await hear(ledger, "a")
    assert await caught_up(behind, LONG_SECONDS)


async def test_a_feed_that_is_made_anew_meanwhile_is_waited_for_from_its_beginning(
    client: Client, ledger: SqliteLedger, behind: IndexWaiters
) -> None:
    await follow(client)
    await tell(client, "a")
    waits = asyncio.create_task(caught_up(behind, LONG_SECONDS))
    assert not await caught_up(behind, SHORT_SECONDS)
    await ask(client, f"STREAM.DELETE.{CHANGES}")
    await declare(client, StreamSettings())
    await follow(client)
    await tell(client, "b")
    await hear(ledger, "a")
    assert not await caught_up(behind, SHORT_SECONDS)
    assert not waits.done()
    await hear(ledger, "b")
    assert await waits


async def test_a_message_that_is_no_change_is_not_waited_for(
    client: Client, ledger: SqliteLedger, behind: IndexWaiters
) -> None:
    await follow(client)
    await tell(client, "a")
    await client.request(f"hive.chg.{TENANT}.memory.user.alice.%k.a", b"[nonsense", timeout=10)
    await hear(ledger, "a")
    assert await caught_up(behind, LONG_SECONDS)


async def test_a_backlog_begins_with_the_oldest_change(client: Client) -> None:
    backlog = FeedPosition()
    await backlog.start(client)
    await follow(client)
    await client.request(f"hive.chg.{TENANT}.memory.user.alice.%k.a", b"{}", timeout=10)
    before = time.time_ns() // 1_000
    await tell(client, "b")
    after = time.time_ns() // 1_000
    assert before - 1_000 <= await backlog.reaches_back_to() <= after


async def test_an_end_of_another_feed_is_never_reached(client: Client) -> None:
    await follow(client)
    await tell(client, "a")
    backlog = FeedPosition()
    await backlog.start(client)
    end = await backlog.end()
    assert not await backlog.is_taken_up(TENANT, NAMESPACE, end)
    await ask(client, f"STREAM.DELETE.{CHANGES}")
    await declare(client, StreamSettings())
    await follow(client)
    assert not await backlog.is_taken_up(TENANT, NAMESPACE, end)
    assert await backlog.is_taken_up(TENANT, NAMESPACE, await backlog.end())
