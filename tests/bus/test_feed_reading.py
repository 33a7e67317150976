"""The feed is read message by message."""

import pytest
from nats.aio.client import Client

from hivemem_contracts.errors import Unavailable
from hivemem_contracts.streams import CHANGES, FEED_EPOCH
from hivemem_runtime.bus.feed.reading import FeedReading
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


async def test_an_epoch_makes_another_identity(client: Client) -> None:
    feed = FeedReading(client)
    await change(client, "a", 1)
    before = await feed.state()
    info = await ask(client, f"STREAM.INFO.{CHANGES}")
    config = info["config"] | {"metadata": {**info["config"].get("metadata", {}), FEED_EPOCH: "e2"}}
    await ask(client, f"STREAM.UPDATE.{CHANGES}", config)
    created = before.identity.partition("/")[0]
    assert await feed.state() == (f"{created}/e2", 1)


async def test_a_message_is_known_by_its_sequence_and_its_time(client: Client) -> None:
    feed = FeedReading(client)
    await change(client, "a", 1)
    stored = await feed.last(ITEMS)
    assert stored is not None
    assert await feed.holds(1, stored.stored_at)
    assert not await feed.holds(1, stored.stored_at + 1)
    assert not await feed.holds(2, stored.stored_at)
    await change(client, "a", 2)
    await ask(client, f"STREAM.PURGE.{CHANGES}", {"seq": 2})
    assert await feed.holds(1, stored.stored_at)


async def test_a_message_that_is_no_change_is_read_as_none(client: Client) -> None:
    feed = FeedReading(client)
    await change(client, "a", 1)
    await client.request("hive.chg.acme.item.a", b"nonsense", timeout=10)
    first, second = await feed.next(ITEMS, 0), await feed.next(ITEMS, 1)
    assert first is not None
    assert second is not None
    told = first.change()
    assert told is not None
    assert (told.entity, told.version) == ("item", 1)
    assert second.change() is None


async def test_a_consumer_that_is_ahead_of_the_feed_does_not_count(client: Client) -> None:
    """The feed has lost its tail, while the consumer kept its own state."""
    feed = FeedReading(client)
    config = {"name": "c", "durable_name": "c", "filter_subject": ITEMS, "ack_policy": "explicit"}
    start = {"deliver_policy": "by_start_sequence", "opt_start_seq": 3}
    await ask(client, f"CONSUMER.CREATE.{CHANGES}.c", {"stream_name": CHANGES, "config": {**config, **start}})
    await change(client, "a", 1)
    with pytest.raises(Unavailable):
        await feed.acknowledged("c")
    await change(client, "a", 2)
    assert await feed.acknowledged("c") == 2
