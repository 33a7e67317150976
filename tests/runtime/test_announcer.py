"""Every version is announced once and in order, whatever dies in between."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from nats.aio.client import Client

from hivemem_contracts.errors import Unavailable
from hivemem_runtime.bus.feed import announcer as module
from hivemem_runtime.bus.feed.announcer import Announcer
from hivemem_runtime.bus.feed.publisher import encode_announcement
from hivemem_runtime.bus.jetstream import ask
from hivemem_runtime.ledger.entity import AnyEntity
from hivemem_runtime.ledger.sqlite import SqliteLedger
from hivemem_testing.process import ProcessServer

from .things import (
    LEVEL,
    TENANT,
    THING,
    UNSPEAKABLE,
    count,
    count_many,
    eventually,
    open_ledger,
    set_level,
    told,
)


def later() -> int:
    """A clock by which every commit is old, so that a sweep takes it at once."""
    return time.time_ns() // 1_000 + 60_000_000


Start = Callable[..., Announcer]


@pytest.fixture
async def start(client: Client) -> AsyncIterator[Start]:
    started: list[Announcer] = []

    def start(ledger: SqliteLedger, clock: Any = None) -> Announcer:
        announcer = Announcer(ledger, [THING, LEVEL], clock=clock)
        announcer.start(client)
        started.append(announcer)
        return announcer

    yield start
    for announcer in started:
        await announcer.stop()


async def told_all(client: Client) -> bool:
    return await told(client) == {"a": [1, 2], "b": [1]}


async def out(announcer: Announcer) -> None:
    await eventually(lambda: announcer.status()["queued"] == 0, "the queue is empty")


async def test_many_things_and_many_versions_of_one_are_told_in_order(
    client: Client, ledger: SqliteLedger, start: Start
) -> None:
    announcer = start(ledger)
    await count_many(ledger, ["one"] * 1_200 + [f"t{n}" for n in range(300)])
    await out(announcer)
    expected = {"one": list(range(1, 1_201))} | {f"t{n}": [1] for n in range(300)}
    assert await told(client) == expected
    assert announcer.status()["published"] == 1_500
    assert await ledger.due(older_than=later(), limit=10) == []


async def test_two_workers_that_take_turns_keep_the_order(
    client: Client, ledger: SqliteLedger, start: Start, tmp_path: Path
) -> None:
    other = open_ledger(tmp_path / "things.db")
    await other.open()
    one, two = start(ledger), start(other)
    for turn in range(60):
        await count_many(other if turn % 2 else ledger, ["a", "b"] * (1 + turn % 3))
    await out(one)
    await out(two)
    found = await told(client)
    versions = sum(1 + turn % 3 for turn in range(60))
    assert found == {"a": list(range(1, versions + 1)), "b": list(range(1, versions + 1))}
    await two.stop()
    await other.close()


async def test_nothing_is_lost_or_told_twice_over_restarts_of_the_server(
    bus: ProcessServer, client: Client, ledger: SqliteLedger, start: Start
) -> None:
    announcer = start(ledger)
    for turn in range(4):
        await count_many(ledger, ["a"] * 40 + [f"t{n}" for n in range(20)])
        if turn % 2:
            bus.kill()
            await count_many(ledger, ["a"] * 10)
            bus.start()
    await out(announcer)
    assert await told(client) == {"a": list(range(1, 181))} | {f"t{n}": [1, 2, 3, 4] for n in range(20)}


async def test_commits_of_a_worker_whose_clock_was_ahead_are_told_before_their_time(
    client: Client, start: Start, tmp_path: Path
) -> None:
    ahead = open_ledger(tmp_path / "things.db", clock=later)
    await ahead.open()
    await count_many(ahead, ["a", "b", "a"])
    await ahead.close()
    ledger = open_ledger(tmp_path / "things.db")
    await ledger.open()
    start(ledger)
    await eventually(lambda: told_all(client), "the commits are told")
    await ledger.close()


async def test_a_stream_that_is_deleted_is_made_anew_and_told_everything(
    client: Client, ledger: SqliteLedger, start: Start
) -> None:
    announcer = start(ledger)
    await count_many(ledger, ["a", "b", "a"])
    await out(announcer)
    await ask(client, "STREAM.DELETE.CHANGES")
    await count_many(ledger, ["a", "b"])

    async def all_told() -> bool:
        return await told(client) == {"a": [1, 2, 3], "b": [1, 2]}

    await eventually(all_told, "a stream was made anew, and everything was told again")


async def test_what_a_crash_left_is_found_in_the_store(client: Client, ledger: SqliteLedger, start: Start) -> None:
    await count_many(ledger, ["a"] * 600 + ["b", "c"])
    await ledger.erase(THING, TENANT, "nothing", actor="bot", cause=None)
    start(ledger, later)

    async def all_told() -> bool:
        return await told(client) == {"a": list(range(1, 601)), "b": [1], "c": [1]}

    await eventually(all_told, "the sweep told everything")
    assert await ledger.due(older_than=later(), limit=10) == []


async def test_an_erasure_that_a_crash_left_is_told_too(client: Client, ledger: SqliteLedger, start: Start) -> None:
    await count(ledger, "a")
    ledger.announced("thing", TENANT, "a", 1)
    await ledger.erase(THING, TENANT, "a", actor="bot", cause="why")
    start(ledger, later)

    async def all_told() -> bool:
        return await told(client) == {"a": [2]}

    await eventually(all_told, "the sweep told of the erasure")


async def test_what_finds_no_room_in_the_queue_is_swept(
    client: Client, ledger: SqliteLedger, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "QUEUE_RECORDS", 5)
    start(ledger, later)
    await count_many(ledger, ["a"] * 20 + [f"t{n}" for n in range(20)])

    async def all_told() -> bool:
        return await told(client) == {"a": list(range(1, 21))} | {f"t{n}": [1] for n in range(20)}

    await eventually(all_told, "everything is told")


async def test_a_sweep_comes_also_while_the_queue_is_never_empty(
    client: Client, ledger: SqliteLedger, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = [f"left behind {n}" for n in range(100)]
    await count_many(ledger, left)
    start(ledger, later)
    counting = True

    async def keep_counting() -> None:
        while counting:
            await count_many(ledger, ["busy"] * 50)

    busy = asyncio.create_task(keep_counting())

    async def swept() -> bool:
        return set(left) <= (await told(client)).keys()

    await eventually(swept, "what was left behind is told")
    counting = False
    await busy


async def test_catching_up_waits_for_what_was_written_before(
    client: Client, ledger: SqliteLedger, start: Start
) -> None:
    announcer = start(ledger)
    await announcer.caught_up()
    for turn in range(1, 4):
        await count_many(ledger, ["a"] * 700)
        await asyncio.gather(announcer.caught_up(), announcer.caught_up())
        assert (await told(client))["a"] == list(range(1, 700 * turn + 1))


async def test_catching_up_is_given_up_after_a_time(
    bus: ProcessServer, client: Client, ledger: SqliteLedger, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "FLUSH_SECONDS", 0.2)
    announcer = start(ledger)
    bus.kill()
    await count(ledger, "a")
    with pytest.raises(Unavailable):
        await announcer.caught_up()
    bus.start()
    monkeypatch.setattr(module, "FLUSH_SECONDS", 20)
    await announcer.caught_up()
    assert await told(client) == {"a": [1]}


async def test_flushing_waits_until_everything_of_a_key_is_out(
    client: Client, ledger: SqliteLedger, start: Start
) -> None:
    announcer = start(ledger)
    await count_many(ledger, ["a"] * 700)
    await announcer.flush(THING, TENANT, "a", 700, 0)
    assert (await told(client))["a"] == list(range(1, 701))


async def test_flushing_gives_up_while_the_server_is_away(
    bus: ProcessServer, client: Client, ledger: SqliteLedger, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "FLUSH_SECONDS", 0.3)
    announcer = start(ledger)
    bus.kill()
    await count(ledger, "a")
    with pytest.raises(Unavailable) as refused:
        await announcer.flush(THING, TENANT, "a", 1, 0)
    assert refused.value.context["retry_after_ms"] > 0
    bus.start()
    await out(announcer)

    async def all_told() -> bool:
        return await told(client) == {"a": [1]}

    await eventually(all_told, "it is told once the server is back")


async def test_what_cannot_be_said_does_not_silence_the_rest(
    client: Client, ledger: SqliteLedger, start: Start
) -> None:
    announcer = start(ledger)
    await count(ledger, "a")
    await count(ledger, "a", UNSPEAKABLE)
    await count_many(ledger, ["a", "b"])
    await out(announcer)
    assert await told(client) == {"a": [1, 3], "b": [1]}


async def test_an_unknown_fault_does_not_silence_it(
    client: Client, ledger: SqliteLedger, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LONGEST_RETRY_SECONDS", 0.01)
    announcer = start(ledger)
    faults = [1, 2]

    def faulty(*arguments: Any) -> Any:
        if faults:
            raise RuntimeError(f"fault {faults.pop()}")
        return encode_announcement(*arguments)

    monkeypatch.setattr(module, "encode_announcement", faulty)
    await count(ledger, "a")
    await out(announcer)
    assert await told(client) == {"a": [1]}


async def test_what_waits_in_the_queue_is_not_swept(
    client: Client, ledger: SqliteLedger, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SWEEP_SECONDS", 0.001)
    monkeypatch.setattr(module, "WAVE_RECORDS", 10)
    read: list[str] = []
    history = ledger.history

    def history_read(entity: AnyEntity, tenant: str, id: str, **bounds: Any) -> Any:
        read.append(id)
        return history(entity, tenant, id, **bounds)

    monkeypatch.setattr(ledger, "history", history_read)
    announcer = start(ledger, later)
    await count_many(ledger, [f"t{n}" for n in range(300)])
    await out(announcer)
    assert await told(client) == {f"t{n}": [1] for n in range(300)}
    assert read == []


async def test_stopping_sends_what_is_queued_and_starting_again_goes_on(client: Client, ledger: SqliteLedger) -> None:
    announcer = Announcer(ledger, [THING])
    announcer.start(client)
    await count_many(ledger, ["a"] * 300)
    await announcer.stop()
    assert await told(client) == {"a": list(range(1, 301))}
    await count(ledger, "a")
    announcer.start(client)
    await count(ledger, "a")
    await out(announcer)
    assert await told(client) == {"a": list(range(1, 303))}
    await announcer.stop()


async def test_what_keeps_no_history_is_never_looked_for(client: Client, ledger: SqliteLedger, start: Start) -> None:
    announcer = start(ledger, later)
    for number in range(20):
        await set_level(ledger, "a", number)
    assert announcer.status()["queued"] == 0
    stamp = await ledger.erase(LEVEL, TENANT, "a", actor="bot", cause="why")
    assert stamp is not None
    await announcer.flush(LEVEL, TENANT, "a", 20, 0)
    await announcer.flush_tombstone(stamp)
    await set_level(ledger, "a", 1)
    await count(ledger, "b")
    await announcer.caught_up()
    assert await told(client) == {"b": [1]}
    assert await ledger.due(older_than=later(), limit=10) == []


async def test_one_that_was_never_started_can_be_stopped(ledger: SqliteLedger) -> None:
    await Announcer(ledger, [THING]).stop()
