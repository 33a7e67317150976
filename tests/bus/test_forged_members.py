"""Entries in the members' bucket are hints: forged entries cost seconds, and no command is stuck for good."""

import asyncio
from functools import partial

import pytest
from nats.aio.client import Client

from hivemem_contracts.streams import MEMBERS
from hivemem_runtime.bus.commands import members as module
from hivemem_runtime.bus.commands import partitions as partitions_module
from hivemem_runtime.bus.commands.members import Members
from hivemem_runtime.bus.wire import send

from .stored import command, publish
from .test_partitions import Recorder, empty, serve
from .waiting import eventually


async def forge(client: Client, count: int, *, start: int = 0) -> None:
    headers = {"Nats-TTL": "60s"}
    for first in range(start, start + count, 50):
        names = [f"$KV.{MEMBERS}.items.forged{number}" for number in range(first, min(first + 50, start + count))]
        await asyncio.gather(*(publish(client, name, b"{}", headers) for name in names))


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partitions_module, "LOOK_SECONDS", 0.2)


async def keep_alive(client: Client, count: int) -> None:
    """Keep forged members alive with repeated heartbeats."""
    while True:
        await forge(client, count)


async def test_commands_are_done_though_members_are_forged(client: Client) -> None:
    await forge(client, 200)
    forging = asyncio.create_task(keep_alive(client, 200))
    recorder = Recorder()
    partitions = serve(client, recorder)
    await partitions.start()
    assert len(partitions.members.living) > 8
    for item in range(40):
        await command(client, "add", f"item{item}", 1)
    await eventually(partial(recorder.has, 40), "all are done", deadline_seconds=60)
    await empty(client)
    assert sorted(recorder.sequences) == list(range(1, 41))
    health = partitions.health()
    assert len(health["members"]["living"]) <= module.SHOWN
    assert "trouble" not in await partitions.status()
    forging.cancel()
    await partitions.stop()


async def test_a_partition_that_was_taken_over_goes_back_to_its_owner(client: Client) -> None:
    """This happens once the partition is idle; the forged member has expired by then."""
    headers = {"Nats-TTL": "60s"}
    recorder = Recorder()
    partitions = serve(client, recorder)
    await partitions.start()
    for number in range(30):
        await publish(client, f"$KV.{MEMBERS}.items.forged{number}", b"{}", headers)
    for item in range(40):
        await command(client, "add", f"item{item}", 1)
    await eventually(partial(recorder.has, 40), "all are done", deadline_seconds=60)

    async def given_back() -> bool:
        status = await partitions.status()
        return set(status["pinned"]) <= set(status["owned"])

    await eventually(given_back, "what is another's is let go", deadline_seconds=60)
    await partitions.stop()


async def test_a_flood_of_members_is_bounded_and_odd_entries_are_ignored(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MEMBERS_MAXIMUM", 50)
    one = Members(client, "items")
    await one.start()
    await forge(client, 120)
    await eventually(lambda: len(one.living) == 51, "the first ones are taken note of")
    await publish(client, f"$KV.{MEMBERS}.items.{'x' * 500}", b"{}")
    head = b"NATS/1.0\r\nStatus: 404\r\nno colon\r\n\xff: \x00\r\n\r\n"
    subject = f"$KV.{MEMBERS}.items.odd".encode()
    await send(client, [b"HPUB %b %d %d\r\n%b\r\n" % (subject, len(head), len(head), head)])
    await client.flush()
    assert len(one.living) == 51
    other = Members(client, "items")
    await other.start()
    assert "trouble" not in other.status()
    await other.leave()
    await one.leave()


async def test_a_full_bucket_keeps_nobody_from_joining(client: Client) -> None:
    """A flood of entries pushes out older entries instead of blocking new ones."""
    body = b"x" * 3_500
    for first in range(0, 1_400, 100):
        names = [f"$KV.{MEMBERS}.other.{first + number}" for number in range(100)]
        await asyncio.gather(*(publish(client, name, body) for name in names))
    one = Members(client, "items")
    await one.start()
    await one.leave()
