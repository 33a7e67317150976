"""Odd headers and subjects of publishers stop neither a partition nor a reaction to the feed."""

from collections.abc import AsyncIterator, Sequence

import orjson
import pytest
from nats.aio.client import Client

from hivemem_contracts.errors import CODE_HEADER
from hivemem_contracts.streams import CHANGES, DEAD, DEAD_MESSAGE_ID, DEAD_SUBJECT, INGEST
from hivemem_runtime.bus.commands.execution import Commands
from hivemem_runtime.bus.commands.partitions import Partitions
from hivemem_runtime.bus.commands.pinned_consumer import PullSettings
from hivemem_runtime.bus.dead_letters import DeadLetters
from hivemem_runtime.bus.jetstream import ask
from hivemem_runtime.bus.reactions.consumers import Reactions
from hivemem_runtime.bus.reactions.runner import Reaction, ReceivedChange
from hivemem_testing.process import ProcessServer
from hivemem_testing.raw_nats import HEADER_BLOCKS, RawNats

from .items import items_service
from .memory_ledger import MemoryLedger
from .stored import Stored, change, command, count_in, messages_in
from .waiting import eventually

SUBJECT = b"hive.in.acme.bot.items.add.a"
TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
READABLE = (b"NATS/1.0\r\n\r\n",)
REPUBLISHED = [block for block in HEADER_BLOCKS if len(block) > 1]
"""The server panics at a one-byte header block in a stream that it republishes; only workers may publish there."""


@pytest.fixture
async def raw(bus_server: ProcessServer) -> AsyncIterator[RawNats]:
    raw = await RawNats.connect(bus_server.url)
    yield raw
    await raw.close()


def add(number: int) -> bytes:
    return orjson.dumps({"item": "a", "number": number})


async def settled(client: Client) -> tuple[list[int], list[Stored]]:
    """Wait until no command is left; return the added numbers and the dead letters."""
    ledger = MemoryLedger()
    handle = Commands(items_service(ledger.as_port()), DeadLetters(client)).handle
    partitions = Partitions(client, "items", handle, partitions=8, settings=PullSettings(batch=64))
    await partitions.start()

    async def empty() -> bool:
        return await count_in(client, INGEST) == 0

    await eventually(empty, "every command is settled")
    await partitions.stop()
    return ledger.numbers, await messages_in(client, DEAD)


async def test_a_command_whose_headers_make_no_sense_is_a_dead_letter(client: Client, raw: RawNats) -> None:
    odd = [block for block in HEADER_BLOCKS if block not in READABLE]
    await command(client, "add", "a", 1_000)
    for number, block in enumerate(odd):
        await raw.publish(SUBJECT, block, add(number))
        await command(client, "add", "a", 1_001 + number)
    numbers, letters = await settled(client)
    assert [number for number in numbers if number >= 1_000] == list(range(1_000, 1_001 + len(odd)))
    assert {letter.headers[CODE_HEADER] for letter in letters} == {"40001"}
    done = [number for number in numbers if number < 1_000]
    assert sorted([*done, *(orjson.loads(letter.data)["number"] for letter in letters)]) == list(range(len(odd)))
    # The server rewrites some odd blocks as valid ones, so some of these commands are done.
    assert 0 not in done
    assert len(letters) >= 10


async def test_the_first_command_of_a_partition_may_be_an_odd_one(client: Client, raw: RawNats) -> None:
    await raw.publish(SUBJECT, b"\r\n\r\n", add(1))
    await command(client, "add", "a", 2)
    numbers, letters = await settled(client)
    assert (numbers, [letter.data for letter in letters]) == ([2], [add(1)])
    assert letters[0].headers[DEAD_SUBJECT] == SUBJECT.decode()


async def test_header_lines_that_only_the_server_should_write_change_nothing(client: Client, raw: RawNats) -> None:
    for number, line in enumerate(
        (b"Nats-Pin-Id: forged", b"Status: 404", b"Description: x", b"Nats-Pin-Id:", b"\xff: x")
    ):
        await raw.publish(SUBJECT, b"NATS/1.0\r\n%b\r\n\r\n" % line, add(number))
    assert await settled(client) == ([0, 1, 2, 3, 4], [])


async def test_ids_of_odd_bytes_are_ids_of_their_own(client: Client, raw: RawNats) -> None:
    for number, identity in enumerate((b"\xff", b"\xfe", b"\0", b"\xff")):
        await raw.publish(SUBJECT, b"NATS/1.0\r\nNats-Msg-Id: %b\r\n\r\n" % identity, add(number))
    assert await settled(client) == ([0, 1, 2], [])


async def test_headers_as_long_as_the_stream_takes_end_in_a_dead_letter(client: Client, raw: RawNats) -> None:
    for name in (b"Nats-Msg-Id", b"Hive-Msg-Id", b"traceparent"):
        await raw.publish(SUBJECT, b"NATS/1.0\r\n%b: %b\r\n\r\n" % (name, b"x" * 65_000), add(1))
    numbers, letters = await settled(client)
    assert numbers == [1], "a trace that is none is left out"
    assert [len(letter.headers[DEAD_MESSAGE_ID]) for letter in letters] == [1_024, 1_024]
    assert {letter.headers[CODE_HEADER] for letter in letters} == {"40001"}


@pytest.mark.parametrize(
    "subject",
    [
        SUBJECT + b"\xff\xfe",
        SUBJECT + b"\x0b7",
        SUBJECT + b"\0",
        b"hive.in.acme.bot.items.\x0b.a",
        b"hive.in.acme.bot.items.\xff.a",
        b"hive.in.a\xffcme.\x0c.items.add.a",
        b"hive.in.acme.bot.items." + b"a" * 4_000 + b".a",
        b"hive.in.acme.bot.items." + b"\x01" * 4_000 + b".a",
    ],
)
async def test_a_command_whose_subject_makes_no_sense_is_a_dead_letter(
    client: Client, raw: RawNats, subject: bytes
) -> None:
    await raw.publish(subject, None, add(1))
    await command(client, "add", "a", 2)
    numbers, letters = await settled(client)
    assert (numbers, [letter.data for letter in letters]) == ([2], [add(1)])
    assert client.stats["reconnects"] == 0


async def test_a_trace_goes_along_with_a_dead_letter(client: Client, raw: RawNats) -> None:
    await raw.publish(SUBJECT, b"NATS/1.0\r\ntraceparent: %b\r\n\r\n" % TRACE.encode(), b"{")
    _, (letter,) = await settled(client)
    assert letter.headers["traceparent"] == TRACE


async def test_a_reaction_goes_on_over_any_message_of_the_feed(
    client: Client, bus_server: ProcessServer, raw: RawNats
) -> None:
    handled: list[int] = []

    async def handle(batch: Sequence[ReceivedChange]) -> None:
        handled.extend(received.change.version for received in batch)

    await change(client, "a", 1)
    for block in REPUBLISHED:
        await raw.publish(b"hive.chg.acme.item.a", block, b"no change")
    for line in (b"Status: 404", b"Status: 409"):
        await raw.publish(b"hive.chg.acme.item.a\xff", b"NATS/1.0\r\n%b\r\n\r\n" % line, b"no change")
    await change(client, "a", 2)
    worker = Reactions(bus_server.url, "items")
    worker.add(Reaction("index", ("hive.chg.*.item.>",), handle, batch=5))
    await worker.start()

    async def acknowledged() -> bool:
        info = await ask(client, f"CONSUMER.INFO.{CHANGES}.items-index")
        return int(info["num_pending"]) + int(info["num_ack_pending"]) == 0

    await eventually(acknowledged, "every message is settled")
    foreign = worker.status()["index"]["foreign"]
    await worker.stop()
    assert handled == [1, 2]
    assert foreign == len(REPUBLISHED) + 2
