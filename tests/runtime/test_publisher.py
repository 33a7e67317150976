"""Each version is published to the feed once and in order, even if others publish on the same subjects."""

import asyncio
from collections.abc import AsyncIterator

import orjson
import pytest
from nats.aio.client import Client

from hivemem_contracts.changes import Change, change_headers
from hivemem_contracts.subjects import Address
from hivemem_runtime.bus.feed import publisher as module
from hivemem_runtime.bus.feed.publisher import Outgoing, Publisher, PublishFailed, Signer, encode_announcement
from hivemem_runtime.bus.feed.subject_places import version_of
from hivemem_runtime.bus.jetstream import ask
from hivemem_runtime.bus.streams import StreamSettings, declare
from hivemem_runtime.ledger.entity import Announcement, Stamp
from hivemem_testing.process import ProcessServer

from .things import told

KEY = b"a key of the fleet"


def change(id: str, version: int, number: int | None = None, value: object = 1) -> Outgoing:
    """Build a change. `number` is its own version, if that differs from the record's."""
    own = version if number is None else number
    announcement = Announcement("thing", "counted", Address((id,)), id, own, own - 1 or None, value)
    stamp = Stamp("acme", "thing", id, version, 1_700_000_000_000_000, "bot", "why")
    return encode_announcement(announcement, stamp, Signer(KEY, "ledger"))


@pytest.fixture
async def publisher(client: Client) -> AsyncIterator[Publisher]:
    publisher = Publisher(client, KEY)
    yield publisher
    await publisher.close()


def test_the_message_is_the_change_of_the_contract() -> None:
    message = change("ü.1", 3, value={"k": "é"})
    body = Change.model_validate_json(message.body)
    headers = dict(line.split(": ", 1) for line in message.lines.splitlines())
    signed = headers.pop("Hive-Signature")
    assert headers == change_headers(body, "%C3%BC%2E1")
    assert version_of(KEY, message.subject, headers | {"Hive-Signature": signed}, message.body) == 3
    assert headers["ce-subject"] == "%25C3%25BC%252E1"
    assert orjson.loads(message.body) == body.model_dump(mode="json")


@pytest.mark.parametrize("changed", ["key", "subject", "id", "body", "ledger", "missing"])
def test_a_change_that_no_worker_signed_is_known(changed: str) -> None:
    message = change("a", 7)
    headers = dict(line.split(": ", 1) for line in message.lines.splitlines())
    key, subject, body = KEY, message.subject, message.body
    if changed == "key":
        key = b"another key"
    elif changed == "subject":
        subject += "x"
    elif changed == "body":
        body += b" "
    elif changed == "id":
        headers["ce-id"] += "9"
    elif changed == "ledger":
        headers["Hive-Signature"] = "x" + headers["Hive-Signature"]
    else:
        del headers["Hive-Signature"]
    assert version_of(key, subject, headers, body) is None


@pytest.mark.parametrize("count", [1, 3])
async def test_messages_of_others_on_a_subject_are_passed_over(
    client: Client, publisher: Publisher, count: int
) -> None:
    """Such messages have no id, an id without a number, or the number of a much later version."""
    await publisher.publish([change("a", 1), change("a", 2)])
    subject = change("a", 1).subject
    for headers in ({}, {"ce-id": "x:y"}, {"Nats-Msg-Id": "x:y"}, {"ce-id": "thing:acme:a:999999"}):
        await client.request(subject, b"{}", headers=headers)
    other = Publisher(client, KEY)
    await other.publish([change("a", version) for version in range(1, 3 + count)])
    await other.close()
    assert await told(client) == {"a": list(range(1, 3 + count))}


@pytest.mark.parametrize(("letters", "omitted"), [(65_534, False), (65_535, True)])
def test_a_value_past_64_kib_is_left_out(letters: int, omitted: bool) -> None:
    body = Change.model_validate_json(change("a", 1, value="x" * letters).body)
    assert (body.value_omitted, body.value is None) == (omitted, omitted)


@pytest.mark.parametrize("count", [1, 100, 700])
async def test_what_is_published_twice_is_there_once(client: Client, publisher: Publisher, count: int) -> None:
    wave = [change("a", version) for version in range(1, count + 1)]
    await publisher.publish(wave)
    await publisher.publish(wave)
    await Publisher(client, KEY).publish(wave)
    assert await told(client) == {"a": list(range(1, count + 1))}


async def test_two_that_publish_the_same_keep_one_order(client: Client, publisher: Publisher) -> None:
    other = Publisher(client, KEY)
    for start in range(1, 400, 20):
        wave = [change(id, version) for version in range(start, start + 20) for id in ("a", "b")]
        await asyncio.gather(publisher.publish(wave), other.publish(wave[: len(wave) // 2]))
    assert await told(client) == {"a": list(range(1, 401)), "b": list(range(1, 401))}
    await other.close()


async def test_numbers_that_begin_anew_are_no_twins(client: Client, publisher: Publisher) -> None:
    await publisher.publish([change("a", 2, 1), change("a", 3, 2)])
    await publisher.publish([change("a", 6, 1), change("a", 7, 2)])
    assert await told(client) == {"a": [1, 2, 1, 2]}


async def test_a_refusal_of_the_stream_is_a_failure(client: Client, publisher: Publisher) -> None:
    await ask(client, "STREAM.DELETE.CHANGES")
    for wave in ([change("a", 1)], [change("a", 1), change("a", 2)]):
        with pytest.raises(PublishFailed):
            await publisher.publish(wave)
    await declare(client, StreamSettings())
    await publisher.publish([change("a", 1), change("a", 2)])
    assert await told(client) == {"a": [1, 2]}


async def test_silence_is_a_failure(
    bus: ProcessServer, client: Client, publisher: Publisher, monkeypatch: pytest.MonkeyPatch
) -> None:
    await publisher.publish([change("a", 1)])
    monkeypatch.setattr(module, "ACKNOWLEDGE_SECONDS", 0.2)
    bus.pause()
    for wave in ([change("a", 2)], [change("a", 2), change("a", 3)]):
        with pytest.raises(PublishFailed):
            await publisher.publish(wave)
    bus.resume()
    monkeypatch.setattr(module, "ACKNOWLEDGE_SECONDS", 5)
    await publisher.publish([change("a", version) for version in (2, 3, 4)])
    assert await told(client) == {"a": [1, 2, 3, 4]}


async def test_large_waves_are_cut_into_batches(client: Client, publisher: Publisher) -> None:
    wave = [change("a", version, value="x" * 60_000) for version in range(1, 160)]
    await publisher.publish(wave)
    assert await told(client) == {"a": list(range(1, 160))}
