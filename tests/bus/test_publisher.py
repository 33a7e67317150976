"""The feed holds each change once and in order, whoever publishes it, how often, and however late."""

from collections.abc import AsyncIterator

import orjson
import pytest
from nats.aio.client import Client

from hivemem_contracts.streams import CHANGES
from hivemem_contracts.subjects import Address
from hivemem_runtime.bus.connection import connect
from hivemem_runtime.bus.feed.publisher import (
    SIDE_BY_SIDE,
    Outgoing,
    Publisher,
    PublishFailed,
    Signer,
    encode_announcement,
)
from hivemem_runtime.bus.feed.subject_places import FeedDoubtful
from hivemem_runtime.bus.jetstream import ask
from hivemem_runtime.bus.streams import declare
from hivemem_runtime.ledger.entity import Announcement, Stamp
from hivemem_testing.process import ProcessServer

from .conftest import SETTINGS
from .items import AGENT, TENANT
from .stored import messages_in

KEY = b"a key of the fleet"


def change(item: str, version: int, *, previous: int | None = None, record: int | None = None) -> Outgoing:
    """Build a change. `record` is the version of its record, if it differs from the change's own."""
    announcement = Announcement("item", "added", Address((item,)), item, version, previous or version - 1 or None, None)
    stamp = Stamp(TENANT, "item", item, record or version, 1_000_000, AGENT)
    return encode_announcement(announcement, stamp, Signer(KEY, "ledger"))


def changes(item: str, first: int, last: int) -> list[Outgoing]:
    return [change(item, version) for version in range(first, last + 1)]


async def versions(client: Client, item: str) -> list[int]:
    subject = f"hive.chg.{TENANT}.item.{item}"
    return [
        orjson.loads(each.data)["version"] for each in await messages_in(client, CHANGES) if each.subject == subject
    ]


@pytest.fixture
async def publisher(client: Client) -> AsyncIterator[Publisher]:
    publisher = Publisher(client, KEY)
    yield publisher
    await publisher.close()


@pytest.fixture
async def other(client: Client) -> AsyncIterator[Publisher]:
    """The publisher of another worker, or of the same worker after a kill."""
    other = Publisher(client, KEY)
    yield other
    await other.close()


@pytest.mark.parametrize("count", [1, 3], ids=["alone", "in a batch"])
async def test_what_is_out_is_not_sent_again(
    client: Client, publisher: Publisher, other: Publisher, count: int
) -> None:
    await publisher.publish(changes("a", 1, count))
    await other.publish(changes("a", 1, count))
    await publisher.publish(changes("a", 1, count))
    assert await versions(client, "a") == list(range(1, count + 1))


async def test_only_what_is_missing_is_added(client: Client, publisher: Publisher, other: Publisher) -> None:
    await publisher.publish(changes("a", 1, 3))
    await other.publish(changes("a", 2, 5))
    assert await versions(client, "a") == [1, 2, 3, 4, 5]


async def test_a_worker_that_thaws_repeats_nothing(client: Client, publisher: Publisher, other: Publisher) -> None:
    await publisher.publish(changes("a", 1, 1) + changes("b", 1, 1))
    await other.publish(changes("a", 2, 4))
    await publisher.publish([change("a", 2), change("b", 2)])
    await publisher.publish([change("a", 3), change("a", 4), change("a", 5)])
    assert await versions(client, "a") == [1, 2, 3, 4, 5]
    assert await versions(client, "b") == [1, 2]


async def test_two_that_publish_by_turns_keep_the_order(client: Client, publisher: Publisher, other: Publisher) -> None:
    for version in range(1, 41):
        each = (publisher, other)[version % 2]
        await each.publish(changes("hot", max(1, version - 2), version) + changes(f"own{version}", 1, 1))
    assert await versions(client, "hot") == list(range(1, 41))


async def test_many_subjects_at_once(client: Client, publisher: Publisher, other: Publisher) -> None:
    items = [f"item{number}" for number in range(2 * SIDE_BY_SIDE)]
    first = [change(item, 1) for item in items]
    await publisher.publish(first)
    await other.publish([each for item in items for each in changes(item, 1, 2)])
    assert [await versions(client, item) for item in items[::50]] == [[1, 2]] * len(items[::50])


async def test_an_address_whose_numbers_begin_anew(client: Client, publisher: Publisher) -> None:
    """The events of a session are numbered from 1 again when the session is deleted and created again."""
    await publisher.publish([change("a", version, record=version + 1) for version in (1, 2)])
    await publisher.publish([change("a", version, record=version + 11) for version in (1, 2)])
    assert await versions(client, "a") == [1, 2, 1, 2]


async def test_a_subject_that_ends_earlier_than_it_did_raises_doubts(client: Client, publisher: Publisher) -> None:
    await publisher.publish(changes("a", 1, 3))
    await ask(client, f"STREAM.DELETE.{CHANGES}")
    with pytest.raises(PublishFailed):
        await publisher.publish(changes("a", 4, 4))
    await declare(client, SETTINGS)
    with pytest.raises(FeedDoubtful):
        await publisher.publish(changes("a", 4, 5))


async def test_a_subject_that_is_told_again_raises_doubts(
    client: Client, publisher: Publisher, other: Publisher
) -> None:
    """Another worker publishes the subject anew, at a higher sequence of the new stream than it had in the old one."""
    await publisher.publish(changes("a", 1, 3))
    await ask(client, f"STREAM.DELETE.{CHANGES}")
    await declare(client, SETTINGS)
    await other.publish([*changes("b", 1, 5), change("a", 1)])
    with pytest.raises(FeedDoubtful):
        await publisher.publish(changes("a", 4, 4))
    assert await versions(client, "a") == [1]


async def test_nothing_is_sent_once_the_feed_is_unchecked(client: Client) -> None:
    publisher = Publisher(client, KEY, unchecked=lambda: True)
    with pytest.raises(FeedDoubtful):
        await publisher.publish(changes("a", 1, 1))
    assert await versions(client, "a") == []


async def test_a_lost_connection_fails_and_the_same_goes_out_later(bus_server: ProcessServer, client: Client) -> None:
    lost = await connect(bus_server.url, "lost")
    publisher = Publisher(lost, KEY)
    await publisher.publish(changes("a", 1, 1))
    await lost.close()
    with pytest.raises(PublishFailed):
        await publisher.publish(changes("a", 2, 2))
    await Publisher(client, KEY).publish(changes("a", 1, 2))
    assert await versions(client, "a") == [1, 2]
