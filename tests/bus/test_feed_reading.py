"""The feed, read message by message."""

import pytest
from nats.aio.client import Client

from hivemem_contracts.errors import Unavailable
from hivemem_contracts.streams import CHANGES
from hivemem_runtime.bus.feed_reading import FeedReading
from hivemem_runtime.bus.jetstream import ask
from hivemem_runtime.bus.streams import declare

from .conftest import SETTINGS
from .stored import change

ITEMS = "hive.chg.acme.item.>"


async def test_messages_are_found_by_subject_and_place(client: Client) -> None:
    feed = FeedReading(client)
    for tenant, item, version in (("acme", "a", 1), ("other", "a", 1), ("acme", "b", 1), ("acme", "a", 2)):
        await change(client, item, version, tenant=tenant)
    found: list[int] = []
    after = 0
    while (message := await feed.next(ITEMS, after)) is not None:
        found.append(message.sequence)
        after = message.sequence
    assert found == [1, 3, 4]
    last = await feed.last("hive.chg.other.item.>")
    assert last is not None
    assert (last.sequence, b'"tenant":"other"' in last.data) == (2, True)
    assert await feed.last("hive.chg.nobody.>") is None
    assert await feed.next(ITEMS, 4) is None


async def test_a_feed_that_was_made_anew_is_another(client: Client) -> None:
    feed = FeedReading(client)
    first = await feed.identity()
    assert await feed.identity() == first
    await ask(client, f"STREAM.DELETE.{CHANGES}")
    with pytest.raises(Unavailable):
        await feed.identity()
    with pytest.raises(Unavailable):
        await feed.last(ITEMS)
    await declare(client, SETTINGS)
    assert await feed.identity() != first


async def test_what_waits_for_a_consumer_is_counted(client: Client) -> None:
    feed = FeedReading(client)
    config = {"name": "c", "durable_name": "c", "filter_subject": ITEMS, "ack_policy": "explicit"}
    await ask(client, f"CONSUMER.CREATE.{CHANGES}.c", {"stream_name": CHANGES, "config": config})
    for version in (1, 2):
        await change(client, "a", version)
    await change(client, "a", 1, tenant="other")
    assert await feed.waiting("c") == 2
    with pytest.raises(Unavailable):
        await feed.waiting("nobody")
