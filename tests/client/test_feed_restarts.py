"""Over restarts, kills and lost consumers, the feed yields every change once, in order, at most a few seconds late."""

# pyright: reportPrivateUsage=false
# Tests reach into the feed to lose its consumer, because its reader notices nothing of that.

import asyncio
import shutil
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import orjson
import pytest

import hivemem
from hivemem.consumer import Consumer, make_consumer
from hivemem_contracts.streams import CHANGES, FEED_EPOCH
from hivemem_testing.process import ProcessServer

from .fleet import DEADLINE_SECONDS, Fleet, eventually

RECOVERY_SECONDS = 5.0


class Reader:
    """Follows a feed in the background."""

    def __init__(self, hive: hivemem.Hive, since: str = "start") -> None:
        self.versions: list[int] = []
        self.feed = hive.changes("event", since=since)
        self.task = asyncio.create_task(self._follow())

    async def _follow(self) -> None:
        async for change in self.feed:
            self.versions.append(change.version)

    async def saw(self, version: int) -> None:
        def seen() -> bool:
            if self.task.done():
                self.task.result()
            return bool(self.versions) and self.versions[-1] >= version

        await eventually(seen, f"version {version} is seen")

    async def stop(self) -> None:
        await self.feed.close()
        await self.task


async def announce(fleet: Fleet, versions: range) -> None:
    for version in versions:
        await fleet.announce("acme", "s1", version)


@pytest.mark.parametrize("how", ["kill", "stop"])
async def test_a_restarted_server_costs_no_change(
    own_server: ProcessServer, own_fleet: Fleet, own_hive: hivemem.Hive, how: str
) -> None:
    reader = Reader(own_hive)
    await announce(own_fleet, range(1, 51))
    await reader.saw(50)
    for round_of in (1, 2):
        await asyncio.to_thread(own_server.kill if how == "kill" else own_server.stop)
        await asyncio.to_thread(own_server.start)
        await announce(own_fleet, range(round_of * 50 + 1, round_of * 50 + 51))
        started = time.monotonic()
        await reader.saw(round_of * 50 + 50)
        assert time.monotonic() - started < RECOVERY_SECONDS
    await reader.stop()

    assert reader.versions == list(range(1, 151))


async def test_a_kill_in_the_middle_of_a_burst_costs_no_change(
    own_server: ProcessServer, own_fleet: Fleet, own_hive: hivemem.Hive
) -> None:
    await announce(own_fleet, range(1, 1001))
    reader = Reader(own_hive)
    await reader.saw(1)
    await asyncio.to_thread(own_server.kill)
    await asyncio.to_thread(own_server.start)
    await reader.saw(1000)
    await reader.stop()

    assert reader.versions == list(range(1, 1001))


async def test_a_consumer_that_is_gone_is_made_anew(own_fleet: Fleet, own_hive: hivemem.Hive) -> None:
    reader = Reader(own_hive)
    await announce(own_fleet, range(1, 11))
    await reader.saw(10)
    (consumer,) = (await own_fleet.api(f"CONSUMER.LIST.{CHANGES}"))["consumers"]
    await own_fleet.api(f"CONSUMER.DELETE.{CHANGES}.{consumer['name']}")
    await announce(own_fleet, range(11, 21))
    started = time.monotonic()
    await reader.saw(20)
    await reader.stop()

    assert time.monotonic() - started < RECOVERY_SECONDS
    assert reader.versions == list(range(1, 21))


async def test_a_frozen_server_costs_no_change(
    own_server: ProcessServer, own_fleet: Fleet, own_hive: hivemem.Hive
) -> None:
    reader = Reader(own_hive)
    await announce(own_fleet, range(1, 11))
    await reader.saw(10)
    before = reader.feed._consumer
    own_server.pause()
    await eventually(lambda: reader.feed._consumer is not before, "the feed misses the heartbeat")
    own_server.resume()
    await announce(own_fleet, range(11, 21))
    await reader.saw(20)
    await reader.stop()

    assert reader.versions == list(range(1, 21))


async def test_a_stream_made_anew_under_a_running_feed_is_noticed(own_fleet: Fleet, own_hive: hivemem.Hive) -> None:
    reader = Reader(own_hive)
    await announce(own_fleet, range(1, 11))
    await reader.saw(10)
    await own_fleet.make_streams()
    await announce(own_fleet, range(1, 3))

    with pytest.raises(hivemem.FeedRecreated):
        async with asyncio.timeout(RECOVERY_SECONDS):
            await reader.task


@pytest.mark.parametrize("resumed", [False, True], ids=["running", "resumed"])
async def test_sequences_that_are_handed_out_again_are_noticed(
    own_server: ProcessServer, own_fleet: Fleet, own_hive: hivemem.Hive, tmp_path: Path, resumed: bool
) -> None:
    """A power cut does this: there are more changes since than were lost, and no worker has noticed it yet."""
    reader = Reader(own_hive)
    await announce(own_fleet, range(1, 4))
    await reader.saw(3)
    await asyncio.to_thread(own_server.stop)
    (folder,) = own_server.log.parent.rglob("streams/CHANGES")
    shutil.copytree(folder, tmp_path / "copy")
    await asyncio.to_thread(own_server.start)
    await announce(own_fleet, range(4, 6))
    await reader.saw(5)
    cursor = reader.feed.cursor
    assert cursor is not None
    if resumed:
        await reader.stop()
    await asyncio.to_thread(own_server.kill)
    shutil.rmtree(folder)
    shutil.copytree(tmp_path / "copy", folder)
    await asyncio.to_thread(own_server.start)
    await announce(own_fleet, range(14, 20))

    following = Reader(own_hive, since=cursor) if resumed else reader
    with pytest.raises(hivemem.FeedRecreated) as gap:
        await asyncio.wait_for(following.task, DEADLINE_SECONDS)
    async for change in own_hive.changes("event", since=gap.value.resume):
        if change.version == 19:
            break


async def test_a_cursor_of_an_earlier_epoch_is_refused(own_fleet: Fleet, own_hive: hivemem.Hive) -> None:
    await announce(own_fleet, range(1, 4))
    cursor = (await anext(own_hive.changes("event", since="start"))).cursor
    config = (await own_fleet.api(f"STREAM.INFO.{CHANGES}"))["config"]
    await own_fleet.api(f"STREAM.UPDATE.{CHANGES}", config | {"metadata": {FEED_EPOCH: "2-later"}})

    with pytest.raises(hivemem.FeedRecreated) as gap:
        await anext(own_hive.changes("event", since=cursor))
    seen = [change async for change in until(own_hive.changes("event", since=gap.value.resume), 3)]

    assert [change.version for change in seen] == [1, 2, 3]
    assert "-2-later-" in seen[0].cursor
    assert (await anext(own_hive.changes("event", since=seen[1].cursor))).version == 3


async def test_a_stream_made_anew_while_a_reader_takes_its_place_is_noticed(
    own_fleet: Fleet, own_hive: hivemem.Hive, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By then the sequence from which the reader would continue belongs to the new stream."""
    await announce(own_fleet, range(1, 4))
    seen = [change async for change in until(own_hive.changes("event", since="start"), 3)]

    async def late(*arguments: Any) -> Consumer:
        monkeypatch.undo()
        await own_fleet.make_streams()
        await announce(own_fleet, range(1, 6))
        return await make_consumer(*arguments)

    monkeypatch.setattr("hivemem.feed.make_consumer", late)
    with pytest.raises(hivemem.FeedRecreated):
        await anext(own_hive.changes("event", since=seen[-1].cursor))


async def until(feed: hivemem.Feed, version: int) -> AsyncIterator[hivemem.Change]:
    async for change in feed:
        yield change
        if change.version == version:
            return


async def test_a_message_lost_on_the_way_is_asked_for_again(own_fleet: Fleet, own_hive: hivemem.Hive) -> None:
    reader = Reader(own_hive)
    await announce(own_fleet, range(1, 6))
    await reader.saw(5)
    consumer = reader.feed._consumer
    assert consumer is not None
    # Simulate a message lost by the connection: the server's count of the consumer is one ahead.
    consumer.delivery._count -= 1
    await announce(own_fleet, range(6, 11))
    await reader.saw(10)
    await reader.stop()

    assert reader.versions == list(range(1, 11))


async def test_a_feed_opens_once_the_server_is_back(
    own_server: ProcessServer, own_fleet: Fleet, own_hive: hivemem.Hive
) -> None:
    await announce(own_fleet, range(1, 3))
    await asyncio.to_thread(own_server.kill)
    await eventually(lambda: not own_hive.connection.connected, "the client notices")
    reader = Reader(own_hive)
    await asyncio.to_thread(own_server.start)
    await reader.saw(2)
    await reader.stop()

    assert reader.versions == [1, 2]


async def test_what_a_stranger_sends_to_the_inbox_does_no_harm(own_fleet: Fleet, own_hive: hivemem.Hive) -> None:
    reader = Reader(own_hive)
    await announce(own_fleet, range(1, 3))
    await reader.saw(2)
    (consumer,) = (await own_fleet.api(f"CONSUMER.LIST.{CHANGES}"))["consumers"]
    await own_fleet.client.publish(consumer["config"]["deliver_subject"], orjson.dumps({"version": 99}))
    await announce(own_fleet, range(3, 5))
    await reader.saw(4)
    await reader.stop()

    assert reader.versions == [1, 2, 3, 4]
