"""The live feed sends changes as plain messages, and a marker where some may have been missed."""

from pathlib import Path

from hivemem_runtime.bus.connection import connect
from hivemem_runtime.bus.feed.live import LiveChanges
from hivemem_runtime.bus.streams import StreamSettings, declare
from hivemem_testing.servers import packaged_nats

from .waiting import eventually


async def test_it_hears_what_is_announced_below_its_subject_and_of_what_it_may_have_missed(tmp_path: Path) -> None:
    heard: list[tuple[str, bytes]] = []
    missed: list[str] = []
    with packaged_nats(tmp_path) as bus:
        client = await connect(bus.url, "live")
        await declare(client, StreamSettings())
        live = LiveChanges(
            "hive.chg.*.lease.>", lambda subject, data: heard.append((subject, data)), lambda: missed.append("")
        )
        await live.start(client)
        await client.publish("hive.chg.t.lease.user.alice", b"1")
        await client.publish("hive.chg.t.memory.user.alice.%k.k", b"2")
        await eventually(lambda: len(heard) == 1, "the change is heard of")
        assert heard == [("hive.chg.t.lease.user.alice", b"1")]
        bus.stop()
        bus.start()
        await eventually(lambda: missed == [""], "it knows of the gap")
        await client.publish("hive.chg.t.lease.user.bob.%k.k", b"3")
        await eventually(lambda: len(heard) == 2, "it goes on")
        await live.stop()
        await client.publish("hive.chg.t.lease.user.bob", b"4")
        await client.flush()
        assert (len(heard), missed) == (2, [""])
        await client.close()
        await live.stop()
