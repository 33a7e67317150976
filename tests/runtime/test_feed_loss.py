"""After a loss the workers announce again from the ledger: each version once and in order, in a new epoch."""

import shutil
import sqlite3
import time
from collections.abc import AsyncIterator, Callable
from contextlib import closing
from pathlib import Path
from typing import Final

import orjson
import pytest
from nats.aio.client import Client

from hivemem_contracts.streams import FEED_EPOCH, FEED_ID
from hivemem_runtime.bus.feed.announcer import Announcer
from hivemem_runtime.bus.feed.stream_keeper import FeedKeeper, StreamState
from hivemem_runtime.bus.jetstream import ask
from hivemem_runtime.bus.streams import MEBIBYTE, StreamSettings
from hivemem_runtime.ledger.feed_mark import FeedMark
from hivemem_runtime.ledger.sqlite import SqliteLedger
from hivemem_testing.process import ProcessServer

from .things import TENANT, THING, count_many, eventually, open_ledger, told

Damage = Callable[[Path], None]
FLIPPED: Final = 0x10
HOUR: Final = 3_600_000_000


@pytest.fixture
async def announcer(client: Client, ledger: SqliteLedger) -> AsyncIterator[Announcer]:
    announcer = Announcer(ledger, [THING])
    announcer.start(client)
    yield announcer
    await announcer.stop()


def stream_folder(bus: ProcessServer) -> Path:
    (folder,) = bus.log.parent.rglob("streams/CHANGES")
    return folder


def blocks(stream: Path) -> list[Path]:
    return sorted((stream / "msgs").glob("*.blk"), key=lambda file: int(file.stem))


def forget_index(stream: Path) -> None:
    (stream / "msgs" / "index.db").unlink(missing_ok=True)


def truncate(stream: Path) -> None:
    """Truncate a file, as when its end had not reached the disk."""
    last = blocks(stream)[-1]
    with last.open("r+b") as file:
        file.truncate(last.stat().st_size * 3 // 4)


def flip(stream: Path) -> None:
    first = blocks(stream)[0]
    _flip(first, first.stat().st_size // 2)


def flip_first_record(stream: Path) -> None:
    _flip(blocks(stream)[0], 100)


def delete_first_block(stream: Path) -> None:
    blocks(stream)[0].unlink()


def _flip(block: Path, offset: int) -> None:
    with block.open("r+b") as file:
        file.seek(offset)
        byte = file.read(1)[0]
        file.seek(-1, 1)
        file.write(bytes([byte ^ FLIPPED]))


def truncate_without_index(stream: Path) -> None:
    truncate(stream)
    forget_index(stream)


def flip_without_index(stream: Path) -> None:
    flip(stream)
    forget_index(stream)


def delete(stream: Path) -> None:
    shutil.rmtree(stream)


async def epoch(client: Client) -> str:
    return str((await ask(client, "STREAM.INFO.CHANGES"))["config"]["metadata"][FEED_EPOCH])


@pytest.mark.parametrize("orderly", [True, False], ids=["stopped", "killed"])
@pytest.mark.parametrize("damage", [truncate, truncate_without_index, flip, flip_without_index, delete])
async def test_what_a_damaged_stream_lost_is_told_again(
    bus: ProcessServer, client: Client, ledger: SqliteLedger, announcer: Announcer, damage: Damage, orderly: bool
) -> None:
    ids = [f"t{number}" for number in range(20)]
    for _ in range(4):
        await count_many(ledger, [*ids, "one", "one"])
    await announcer.caught_up()
    before, folder = await epoch(client), stream_folder(bus)

    (bus.stop if orderly else bus.kill)()
    damage(folder)
    bus.start()
    await count_many(ledger, ["one", "new"])

    await all_told(client, dict.fromkeys(ids, 4) | {"one": 9, "new": 1})
    assert await epoch(client) != before
    assert announcer.status()["losses"]


@pytest.mark.parametrize("damage", [flip, flip_first_record, delete_first_block])
async def test_a_block_that_the_server_passes_over_in_silence_is_found(
    bus: ProcessServer, client: Client, ledger: SqliteLedger, announcer: Announcer, damage: Damage
) -> None:
    """The server counts the messages of an earlier block from its index, and does not report that it cannot read them.
    A missing beginning looks as if the messages had expired."""
    large = "x" * 50_000
    for number in range(300):
        await count_many(ledger, [f"t{number % 7}"], note=large)
    await announcer.caught_up()
    folder = stream_folder(bus)
    assert len(blocks(folder)) > 1

    bus.stop()
    damage(folder)
    bus.start()

    await all_told(client, {f"t{number}": 43 if number < 6 else 42 for number in range(7)})


async def test_a_folder_that_is_put_back_is_told_what_came_since(
    bus: ProcessServer, client: Client, ledger: SqliteLedger, announcer: Announcer, tmp_path: Path
) -> None:
    await count_many(ledger, ["a", "a", "b"])
    await announcer.caught_up()
    folder, copy = stream_folder(bus), tmp_path / "copy"
    bus.stop()
    shutil.copytree(folder, copy)
    bus.start()
    for _ in range(3):
        await count_many(ledger, ["a", "b", "c"])
    await announcer.caught_up()

    bus.kill()
    shutil.rmtree(folder)
    shutil.copytree(copy, folder)
    bus.start()

    await all_told(client, {"a": 5, "b": 4, "c": 3})


async def test_a_worker_that_was_away_finds_the_loss_though_others_have_told_more_since(
    bus: ProcessServer, client: Client, ledger: SqliteLedger, announcer: Announcer, tmp_path: Path
) -> None:
    """Another ledger on the same feed reuses the lost sequences, so that the feed is as long as it was."""
    other = open_ledger(tmp_path / "other.db")
    await other.open()
    others = Announcer(other, [THING])
    await count_many(ledger, ["a"] * 8)
    await announcer.caught_up()
    folder = stream_folder(bus)
    await announcer.stop()
    bus.kill()
    truncate(folder)
    bus.start()
    others.start(client)
    await count_many(other, ["x"] * 30)
    await others.caught_up()

    announcer.start(client)

    await all_told(client, {"a": 8, "x": 30})
    await others.stop()
    await other.close()


async def test_nothing_that_left_the_feed_by_its_size_is_told_again(
    bus: ProcessServer, client: Client, tmp_path: Path
) -> None:
    ago = [HOUR]
    ledger = SqliteLedger(tmp_path / "aged.db", [THING], clock=lambda: time.time_ns() // 1_000 - ago[0])
    await ledger.open()
    announcer = Announcer(ledger, [THING])
    announcer.start(client, StreamSettings(changes_max_bytes=MEBIBYTE))
    await count_many(ledger, [f"old{number}" for number in range(20)], note="x" * 40_000)
    await announcer.caught_up()
    ago[0] = 0
    await count_many(ledger, ["a"] * 60, note="x" * 40_000)
    await announcer.caught_up()
    folder = stream_folder(bus)

    bus.kill()
    truncate(folder)
    bus.start()
    await eventually(lambda: bool(announcer.status()["losses"]), "the loss is noticed")
    await count_many(ledger, ["end"])

    async def holds() -> bool:
        found = await told(client)
        left = found.get("a", [61])
        return found.keys() == {"a", "end"} and left == list(range(left[0], 61))

    await eventually(holds, "everything that is left is told once and in order, and nothing else")
    await announcer.stop()
    await ledger.close()


async def test_a_ledger_that_is_older_than_the_feed_is_noticed(
    client: Client, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path, copy = tmp_path / "older.db", tmp_path / "copy.db"
    ledger = open_ledger(path)
    await ledger.open()
    announcer = Announcer(ledger, [THING])
    announcer.start(client)
    await count_many(ledger, ["a", "a", "b"])
    await announcer.caught_up()
    await ledger.due(older_than=0, limit=1)
    with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(copy)) as target:
        source.backup(target)
    await count_many(ledger, ["a", "a", "b"])
    await announcer.caught_up()
    await announcer.stop()
    await ledger.close()

    older = open_ledger(copy)
    await older.open()
    announcer = Announcer(older, [THING])
    announcer.start(client)
    await count_many(older, ["b"])

    await all_told(client, {"a": 2, "b": 2})
    assert "the ledger is older" in announcer.status()["losses"][0]
    await announcer.stop()
    await older.close()


@pytest.mark.parametrize("copied", [True, False], ids=["older", "empty"])
async def test_a_ledger_that_is_older_than_the_epoch_of_the_feed_is_noticed(
    client: Client, tmp_path: Path, copied: bool
) -> None:
    """Its mark means nothing in this epoch, and it commits versions that the feed already has."""
    path, copy = tmp_path / "older.db", tmp_path / "copy.db"
    ledger = open_ledger(path)
    await ledger.open()
    announcer = Announcer(ledger, [THING])
    announcer.start(client)
    await count_many(ledger, ["a", "a"])
    await announcer.caught_up()
    await ledger.due(older_than=0, limit=1)
    if copied:
        with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(copy)) as target:
            source.backup(target)
    config = (await ask(client, "STREAM.INFO.CHANGES"))["config"]
    await ask(client, "STREAM.UPDATE.CHANGES", config | {"metadata": config["metadata"] | {FEED_EPOCH: "2-later"}})
    await eventually(lambda: bool(announcer.status()["losses"]), "the epoch is noticed")
    await count_many(ledger, ["a", "a", "gone"])
    await announcer.caught_up()
    await announcer.stop()
    await ledger.close()

    older = open_ledger(copy)
    await older.open()
    announcer = Announcer(older, [THING])
    announcer.start(client)
    await count_many(older, ["a"])

    await all_told(client, {"a": 3 if copied else 1})
    assert "the ledger is older" in announcer.status()["losses"][-1]
    await announcer.stop()
    await older.close()


async def test_a_ledger_whose_keys_were_not_all_made_due_begins_again(client: Client, ledger: SqliteLedger) -> None:
    state = StreamState.of(await ask(client, "STREAM.INFO.CHANGES"))
    await count_many(ledger, ["a", "b"])
    await ledger.announce_again(FeedMark(state.created, state.epoch, -1, ""))
    ledger.announced("thing", TENANT, "a", 1)
    announcer = Announcer(ledger, [THING])
    announcer.start(client)

    await all_told(client, {"a": 1, "b": 1})
    await announcer.stop()


async def test_a_feed_is_read_through_by_another_worker_where_the_first_one_ended(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second, third = (FeedKeeper(client, StreamSettings()) for _ in range(3))
    assert [await keeper.claims_scrub() for keeper in (first, first, second)] == [True, False, False]
    monkeypatch.setattr("hivemem_runtime.bus.feed.stream_keeper.SCRUB_SECONDS", 0.0)
    assert await second.claims_scrub()
    await second.scrubbed()
    assert [await keeper.claims_scrub() for keeper in (first, second, third)] == [False, False, False]


async def test_the_loss_of_a_message_that_was_reacted_to_is_noticed_by_a_worker_that_begins(
    bus: ProcessServer, client: Client, tmp_path: Path
) -> None:
    """The worker was killed before it had stored its own announced mark."""
    path, copy = tmp_path / "killed.db", tmp_path / "copy.db"
    ledger = open_ledger(path)
    await ledger.open()
    announcer = Announcer(ledger, [THING])
    announcer.start(client)
    await count_many(ledger, ["a"] * 8)
    await announcer.caught_up()
    state = StreamState.of(await ask(client, "STREAM.INFO.CHANGES"))
    await announcer.rely(f"{state.created}/{state.epoch}", state.last, "thing:acme:a:8")
    with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(copy)) as target:
        source.backup(target)
    await announcer.stop()
    await ledger.close()
    before, folder = await epoch(client), stream_folder(bus)
    bus.kill()
    truncate(folder)
    bus.start()

    ledger = open_ledger(copy)
    await ledger.open()
    announcer = Announcer(ledger, [THING])
    announcer.start(client)
    await all_told(client, {"a": 8})
    assert await epoch(client) != before
    await announcer.stop()
    await ledger.close()


async def all_told(client: Client, last: dict[str, int]) -> None:
    expected = {id: list(range(1, version + 1)) for id, version in last.items()}
    found: dict[str, list[int]] = {}

    async def holds() -> bool:
        nonlocal found
        found = await told(client)
        return found == expected

    try:
        await eventually(holds, "everything is told once and in order")
    except AssertionError:
        assert found == expected
        raise


async def test_a_mark_that_moves_on_during_a_check_is_no_loss(
    announcer: Announcer, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    await announcer.checked()
    guard, read_state = announcer._guard, FeedKeeper.state  # pyright: ignore[reportPrivateUsage]  # it stands for a reaction
    looked: list[int] = []

    async def state(keeper: FeedKeeper) -> StreamState:
        """Return the state before a message that a reaction relies on by the time of its return."""
        found = await read_state(keeper)
        stored = await client.request("hive.chg.acme.odd.x", b"{}", timeout=10, headers={FEED_ID: "odd:1"})
        looked.append(int(orjson.loads(stored.data)["seq"]))
        guard.note(looked[-1], "odd:1")
        return found

    monkeypatch.setattr(FeedKeeper, "state", state)
    guard.doubt()
    await eventually(lambda: bool(looked) and not guard.unchecked(), "the feed is looked at again")
    assert announcer.status()["losses"] == []
