"""Commands that are stored below the position of their consumer are still delivered."""

from collections.abc import Sequence

import pytest
from nats.aio.client import Client

from hivemem_contracts.streams import INGEST
from hivemem_runtime.bus.commands import passed_over
from hivemem_runtime.bus.commands.partitions import Partitions
from hivemem_runtime.bus.commands.stray_commands import StrayCommands
from hivemem_runtime.bus.dead_letters import DeadLetters
from hivemem_runtime.bus.delivery import DurableMessage
from hivemem_runtime.bus.jetstream import ask

from .conftest import SETTINGS
from .stored import command, count_in
from .waiting import eventually

AHEAD = 1_000


async def test_a_consumer_that_is_ahead_of_the_stream_is_put_back(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(passed_over, "SETTLING_SECONDS", 0.0)
    handled: list[int] = []

    async def handle(messages: Sequence[DurableMessage]) -> int:
        handled.extend(message.sequence for message in messages)
        return len(messages)

    async def look() -> bool:
        await strays.move((await ask(client, f"STREAM.INFO.{INGEST}"))["state"])
        return await count_in(client, INGEST) == 0

    strays = StrayCommands(client, DeadLetters(client))
    partitions = Partitions(client, "items", handle, partitions=SETTINGS.partitions)
    await partitions.start()
    for number in range(SETTINGS.partitions):
        await ask(client, f"CONSUMER.RESET.{INGEST}.items-p{number}", {"seq": AHEAD})
    stored = [(await command(client, "append", "s1", number))["seq"] for number in range(5)]
    try:
        await eventually(look, "the commands are delivered and removed")
    finally:
        await partitions.stop()
    assert sorted(set(handled)) == stored
