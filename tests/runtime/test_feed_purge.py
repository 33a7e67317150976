"""What was purged on purpose is no loss, for the workers and across restarts; anything else that is missing is one."""

import asyncio
from collections.abc import AsyncIterator
from functools import partial

import pytest
from nats.aio.client import Client

from hivemem_contracts.errors import Unavailable
from hivemem_contracts.streams import CHANGES, PURGED_SUBJECT
from hivemem_runtime.bus.feed import purged, purging
from hivemem_runtime.bus.feed.announcer import Announcer
from hivemem_runtime.bus.feed.purged import PurgedSequences
from hivemem_runtime.bus.feed.purging import FeedPurger
from hivemem_runtime.bus.feed.scrub import scrub
from hivemem_runtime.bus.jetstream import ask, publish
from hivemem_runtime.erasing import erase_announced
from hivemem_runtime.ledger.sqlite import SqliteLedger
from hivemem_testing.process import ProcessServer

from .things import TENANT, THING, count_many, eventually, told

GONE = "hivemem.thing.gone"


@pytest.fixture
async def announcer(client: Client, ledger: SqliteLedger) -> AsyncIterator[Announcer]:
    announcer = Announcer(ledger, [THING])
    announcer.start(client)
    yield announcer
    await announcer.stop()


async def erase(ledger: SqliteLedger, announcer: Announcer, id: str) -> None:
    stamp = await erase_announced(ledger, announcer, THING, TENANT, id, actor="bot", cause="c")
    assert stamp is not None
    await announcer.flush_tombstone(stamp)


async def begin_again(client: Client, ledger: SqliteLedger, feed: dict[str, list[int]]) -> list[str]:
    """Return the losses that a new worker finds until the feed holds these versions."""
    announcer = Announcer(ledger, [THING])
    announcer.start(client)
    try:
        await announcer.checked()
        await count_many(ledger, ["later"])
        await announcer.caught_up()
        await eventually(partial(holds, client, feed), "the feed is whole")
        losses: list[str] = announcer.status()["losses"]
    finally:
        await announcer.stop()
    return losses


async def holds(client: Client, feed: dict[str, list[int]]) -> bool:
    return await told(client) == feed


@pytest.mark.parametrize("orderly", [True, False], ids=["stopped", "killed"])
async def test_a_purge_is_no_loss_for_any_worker_nor_after_a_restart(
    bus: ProcessServer, client: Client, ledger: SqliteLedger, announcer: Announcer, orderly: bool
) -> None:
    # The purged changes are at the beginning of the feed, in its middle, and under the mark of a worker.
    await count_many(ledger, ["a", "b", "a", "b", "a"])
    await announcer.caught_up()
    await erase(ledger, announcer, "a")
    await count_many(ledger, ["a", "b"])
    await announcer.caught_up()
    created = (await ask(client, f"STREAM.INFO.{CHANGES}"))["created"]

    purger = FeedPurger(client)
    assert [await purger.purge(["hive.chg.*.thing.>"], GONE) for _ in range(2)] == [3, 0]

    await announcer.stop()
    (bus.stop if orderly else bus.kill)()
    for index in bus.log.parent.rglob(f"streams/{CHANGES}/msgs/index.db"):
        index.unlink()
    bus.start()

    async def answers() -> bool:
        try:
            return bool(await ask(client, f"STREAM.INFO.{CHANGES}", timeout_seconds=0.5))
        except Unavailable:
            return False

    await eventually(answers, "the server is back")
    assert await begin_again(client, ledger, {"a": [4, 5], "b": [1, 2, 3], "later": [1]}) == []
    info = await ask(client, f"STREAM.INFO.{CHANGES}")
    assert info["created"] == created
    assert await scrub(client, created, PurgedSequences(client)) is None


async def test_a_change_that_is_lost_beside_purged_ones_is_found(
    client: Client, ledger: SqliteLedger, announcer: Announcer
) -> None:
    await count_many(ledger, ["b", "a", "b", "a"])
    await announcer.caught_up()
    await erase(ledger, announcer, "a")
    await FeedPurger(client).purge(["hive.chg.*.thing.>"], GONE)
    await announcer.stop()
    await ask(client, f"STREAM.MSG.DELETE.{CHANGES}", {"seq": 3})

    losses = await begin_again(client, ledger, {"a": [3], "b": [1, 2], "later": [1]})
    assert losses == ["1 messages are missing in its middle"]


async def test_a_forged_tombstone_has_nothing_purged(
    client: Client, ledger: SqliteLedger, announcer: Announcer
) -> None:
    await count_many(ledger, ["a", "a"])
    await announcer.caught_up()
    await publish(client, f"hive.chg.{TENANT}.thing.a", b"{}", {"ce-type": GONE}, timeout_seconds=5)
    assert await FeedPurger(client).purge(["hive.chg.*.thing.>"], GONE) == 0


async def test_a_small_purge_does_not_wait_for_the_end_of_a_large_one(
    client: Client, ledger: SqliteLedger, announcer: Announcer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(purging, "BATCH", 2)
    await count_many(ledger, ["large"] * 8 + ["small"])
    await announcer.caught_up()
    await erase(ledger, announcer, "large")
    await erase(ledger, announcer, "small")
    purger = FeedPurger(client)
    ended: list[str] = []

    async def purge(id: str) -> None:
        await purger.purge([f"hive.chg.*.thing.{id}"], GONE)
        ended.append(id)

    await asyncio.gather(purge("large"), purge("small"))
    assert ended == ["small", "large"]


async def test_records_that_were_read_count_after_an_error_and_other_messages_are_skipped(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    await PurgedSequences(client).write_down("2026", [1])
    await publish(client, PURGED_SUBJECT, b"no record", {}, timeout_seconds=5)
    await PurgedSequences(client).write_down("2026", [2])
    reader = PurgedSequences(client)
    answered = 0

    async def interrupted(client: Client, what: str, body: dict[str, object]) -> object:
        nonlocal answered
        if (answered := answered + 1) == 2:
            raise Unavailable("the server does not answer")
        return await ask(client, what, body)

    monkeypatch.setattr(purged, "ask", interrupted)
    with pytest.raises(Unavailable):
        await reader.update("2026")
    await reader.update("2026")
    assert reader.count(1, 9) == 2


async def test_ranges_of_purged_sequences_are_counted(client: Client) -> None:
    one, other = PurgedSequences(client), PurgedSequences(client)
    await one.write_down("2026", [5, 1, 2, 9])
    await other.write_down("2026", [3, 4, 9, 20])
    await one.update("2026")
    assert [one.count(*bounds) for bounds in ((1, 30), (2, 4), (5, 9), (6, 8), (20, 20), (21, 99))] == [
        7,
        3,
        2,
        0,
        1,
        0,
    ]
    await one.update("2027")
    assert one.count(1, 30) == 0
