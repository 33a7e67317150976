"""Each partition hands over its messages in order, and only while it is pinned to this worker."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from functools import partial

import pytest
from nats.aio.client import Client

from hivemem_contracts.streams import INGEST
from hivemem_runtime.bus.commands.members import Members
from hivemem_runtime.bus.commands.partitions import Partitions
from hivemem_runtime.bus.commands.pinned_consumer import PullSettings
from hivemem_runtime.bus.connection import connect
from hivemem_runtime.bus.delivery import DurableMessage
from hivemem_runtime.bus.jetstream import ask
from hivemem_runtime.bus.streams import COMMAND_BYTES
from hivemem_testing.process import ProcessServer

from .conftest import SETTINGS
from .stored import command, count_in
from .waiting import eventually

QUICK = PullSettings(pin_seconds=1.0, batch=16)


class Recorder:
    """A handler that records the messages it settled, and can refuse some of them."""

    def __init__(self) -> None:
        self.settled: list[DurableMessage] = []
        self.refuse: set[int] = set()
        """The stream sequences of messages that it refuses to settle."""
        self.calls = 0
        self.gate = asyncio.Event()
        self.gate.set()

    async def __call__(self, messages: Sequence[DurableMessage]) -> int:
        self.calls += 1
        await self.gate.wait()
        for place, message in enumerate(messages):
            if message.sequence in self.refuse:
                return place
            self.settled.append(message)
        return len(messages)

    def has(self, count: int) -> bool:
        return len(self.settled) == count

    @property
    def sequences(self) -> list[int]:
        return [message.sequence for message in self.settled]


def serve(client: Client, handle: Recorder, *, settings: PullSettings = QUICK) -> Partitions:
    members = Members(client, "items", ttl_seconds=1)
    return Partitions(client, "items", handle, partitions=SETTINGS.partitions, settings=settings, members=members)


async def empty(client: Client) -> None:
    async def drained() -> bool:
        return await count_in(client, INGEST) == 0

    await eventually(drained, "every command is acknowledged")


async def test_messages_are_handed_over_once_in_order_and_acknowledged(client: Client) -> None:
    for number in range(100):
        await command(client, "add", "a", number)
    recorder = Recorder()
    partitions = serve(client, recorder)
    await partitions.start()
    await empty(client)
    assert recorder.sequences == list(range(1, 101))
    first = recorder.settled[0]
    assert first.headers["Nats-Msg-Id"] == "a-0"
    assert first.subject.split(".")[3:] == ["acme", "bot", "items", "add", "a"]
    await partitions.stop()


async def test_a_message_that_comes_while_idle_is_handed_over_at_once(client: Client) -> None:
    recorder = Recorder()
    partitions = serve(client, recorder)
    await partitions.start()
    for number in range(1, 31):
        await command(client, "add", "a", number)
        await eventually(partial(recorder.has, number), "it is handled", deadline_seconds=1.0)
    assert recorder.sequences == list(range(1, 31))
    await partitions.stop()


async def test_what_is_not_settled_comes_again_in_order_and_nothing_overtakes_it(client: Client) -> None:
    for number in range(60):
        await command(client, "add", "a", number)
    recorder = Recorder()
    recorder.refuse = {21}
    partitions = serve(client, recorder)
    await partitions.start()
    await eventually(lambda: recorder.calls >= 4, "it is tried again")
    assert recorder.sequences == list(range(1, 21))
    assert (await partitions.status())["failing"]
    recorder.refuse = set()
    await empty(client)
    assert recorder.sequences == list(range(1, 61))
    assert not (await partitions.status())["failing"]
    await partitions.stop()


async def test_a_handler_that_raises_is_asked_again(client: Client) -> None:
    recorder = Recorder()
    raised: list[int] = []

    async def handle(messages: Sequence[DurableMessage]) -> int:
        if len(raised) < 2:
            raised.append(messages[0].sequence)
            raise RuntimeError("a fault of the handler")
        return await recorder(messages)

    partitions = Partitions(client, "items", handle, partitions=8, settings=QUICK)
    await command(client, "add", "a", 1)
    await partitions.start()
    await empty(client)
    assert (raised, recorder.sequences) == ([1, 1], [1])
    await partitions.stop()


async def test_a_handler_that_outlasts_the_pin_gets_nothing_twice(client: Client) -> None:
    for number in range(80):
        await command(client, "add", "a", number)
    recorder = Recorder()
    recorder.gate.clear()
    partitions = serve(client, recorder)
    await partitions.start()
    await eventually(lambda: recorder.calls == 1, "the first batch is being handled")

    async def unpinned() -> bool:
        infos = [await ask(client, f"CONSUMER.INFO.{INGEST}.items-p{number}") for number in range(8)]
        return any(info["num_ack_pending"] and not info["priority_groups"][0].get("pinned_client_id") for info in infos)

    await eventually(unpinned, "the pin expires")
    recorder.gate.set()
    await empty(client)
    assert recorder.sequences == list(range(1, 81))
    await partitions.stop()


async def test_messages_of_any_size_that_the_stream_takes_are_delivered(client: Client) -> None:
    sizes = [COMMAND_BYTES, 10, 1_000_000, COMMAND_BYTES, 5]
    for size in sizes:
        await client.request("hive.in.acme.bot.items.add.a", bytes(size), timeout=5)
    recorder = Recorder()
    partitions = serve(client, recorder)
    await partitions.start()
    await empty(client)
    assert [len(message.data) for message in recorder.settled] == sizes
    await partitions.stop()


async def test_headers_of_a_publisher_cannot_pass_for_those_of_the_server(client: Client) -> None:
    for number in range(5):
        headers = {"Nats-Pin-Id": "forged", "Status": "423", "Description": "forged", "Nats-Msg-Id": str(number)}
        await client.request("hive.in.acme.bot.items.add.a", b"{}", timeout=1, headers=headers)
    recorder = Recorder()
    partitions = serve(client, recorder)
    await partitions.start()
    await empty(client)
    assert recorder.sequences == [1, 2, 3, 4, 5]
    assert recorder.calls <= 5
    await partitions.stop()


@pytest.fixture
async def other_client(bus_server: ProcessServer) -> AsyncIterator[Client]:
    other = await connect(bus_server.url, "other")
    yield other
    await other.close()


async def test_a_leaver_hands_its_partitions_over_at_once(client: Client, other_client: Client) -> None:
    one, other = Recorder(), Recorder()
    leaver, stayer = serve(client, one), serve(other_client, other)
    await leaver.start()
    await stayer.start()

    async def halves(held: str) -> bool:
        shares = [(await each.status())[held] for each in (leaver, stayer)]
        return [len(share) for share in shares] == [4, 4] and {*shares[0], *shares[1]} == set(range(8))

    await eventually(lambda: halves("owned"), "each asks for half of the partitions")
    for item in range(40):
        await command(client, "add", f"item{item}", 1)
    await eventually(lambda: halves("pinned"), "each is pinned to its half")
    await empty(client)
    await leaver.stop()
    before = len(one.settled)
    assert before + len(other.settled) == 40
    for item in range(40):
        await command(client, "add", f"item{item}", 2)
    await eventually(lambda: before + len(other.settled) == 80, "the stayer has them all", deadline_seconds=1.0)
    await empty(client)
    assert (await stayer.status())["lag"] == {f"items-p{number}": 0 for number in range(8)}
    await stayer.stop()


async def test_stopping_finishes_the_batch_at_hand_and_leaves_the_rest(client: Client) -> None:
    for number in range(64):
        await command(client, "add", "a", number)
    recorder = Recorder()
    recorder.gate.clear()
    partitions = serve(client, recorder)
    await partitions.start()
    await eventually(lambda: recorder.calls == 1, "the first batch is being handled")
    stopping = asyncio.create_task(partitions.stop())
    await eventually(lambda: not partitions.members.owns(0, 1), "it is leaving")
    recorder.gate.set()
    await stopping
    done = len(recorder.settled)
    assert 0 < done < 64
    assert recorder.calls == 1
    assert await count_in(client, INGEST) == 64 - done
    successor = serve(client, recorder)
    await successor.start()
    await empty(client)
    assert recorder.sequences == list(range(1, 65))
    await successor.stop()


async def test_a_stop_does_not_wait_for_ever_for_a_handler(client: Client) -> None:
    await command(client, "add", "a", 1)
    recorder = Recorder()
    recorder.gate.clear()
    partitions = serve(client, recorder)
    await partitions.start()
    await eventually(lambda: recorder.calls == 1, "the batch is being handled")
    await partitions.stop(timeout_seconds=0.1)
    assert recorder.settled == []
    assert await count_in(client, INGEST) == 1


async def test_a_consumer_that_is_gone_is_made_again(client: Client) -> None:
    recorder = Recorder()
    partitions = serve(client, recorder)
    await partitions.start()
    await command(client, "add", "a", 1)
    await empty(client)
    for number in range(8):
        await ask(client, f"CONSUMER.DELETE.{INGEST}.items-p{number}")
    await command(client, "add", "a", 2)
    await empty(client)
    assert [message.headers["Nats-Msg-Id"] for message in recorder.settled] == ["a-1", "a-2"]
    await partitions.stop()


async def test_what_a_dead_owner_had_got_comes_to_the_next_one(client: Client, other_client: Client) -> None:
    """No new message arrives that could make the server move the pin. The takeover comes long before the ack wait ends,
    which redelivers the messages."""
    stuck, next_one = Recorder(), Recorder()
    stuck.gate.clear()
    dead, living = serve(client=other_client, handle=stuck), serve(client, next_one)
    await dead.start()
    for number in range(10):
        await command(client, "add", "a", number)
    await eventually(lambda: stuck.calls == 1, "the first owner has got something")
    await other_client.close()
    await living.start()
    await empty(client)
    assert next_one.sequences == list(range(1, 11))
    await living.stop()
    stuck.gate.set()
    await dead.stop()


async def test_a_partition_that_stands_still_is_trouble_and_no_more_once_it_moves(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hivemem_runtime.bus.commands.progress.STALL_SECONDS", 1.0)
    recorder = Recorder()
    recorder.refuse = {1}
    partitions = serve(client, recorder)
    await partitions.start()
    assert "trouble" not in await partitions.status()
    await command(client, "add", "a", 1)
    await eventually(lambda: "trouble" in partitions.health(), "it is told", deadline_seconds=30)
    assert "1 commands wait and none was settled" in partitions.health()["trouble"]
    recorder.refuse = set()
    await eventually(lambda: "trouble" not in partitions.health(), "it moves again", deadline_seconds=30)
    await partitions.stop()
