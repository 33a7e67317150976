"""A command that kills its workers ends in DEAD and blocks no other command; orderly ends do not count as crashes."""

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import BinaryIO, Final

import orjson
import pytest
from nats.aio.client import Client

from hivemem_contracts.errors import Internal, error_from_body
from hivemem_contracts.streams import BEGUN, DEAD, DEAD_ERROR, DEAD_MESSAGE_ID, INGEST
from hivemem_runtime.bus.commands import crash_counts
from hivemem_runtime.bus.commands.crash_counts import DEATHS_ALONE, DEATHS_TOGETHER, CrashCounts
from hivemem_runtime.bus.commands.members import Members
from hivemem_runtime.bus.delivery import DurableMessage
from hivemem_runtime.bus.jetstream import ask
from hivemem_testing.process import ProcessServer

from .items import numbers_of, sqlite_ledger
from .stored import command, count_in, messages_in, publish
from .test_elastic_workers import ROOT
from .waiting import eventually
from .worker_process import DEATH, POISON

ROUTES: Final = [f"route{number}" for number in range(12)]
NUMBERS: Final = 60
SLACK: Final = 3
"""Extra deaths to allow for: the first one is not recorded, and a dead owner may count as alive for a moment."""
SECONDS: Final = 300.0

MESSAGE: Final = DurableMessage("hive.in.0.acme.bot.items.add.a", {}, b"", 7, 1, 1, 1_000, "")


async def done_or_dead(client: Client, process: "subprocess.Popen[bytes]") -> bool:
    """Return True once every command is settled, False if the worker died first."""

    async def settled() -> bool:
        return process.poll() is not None or await count_in(client, INGEST) == 0

    await eventually(settled, "every command is settled, or the worker is dead", deadline_seconds=SECONDS)
    return process.poll() is None


def start(command_line: list[str], log: BinaryIO) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(command_line, cwd=ROOT, stdout=log, stderr=log)


async def test_a_command_that_kills_its_workers_is_given_up_and_all_others_are_done(
    client: Client, bus_server: ProcessServer, tmp_path: Path
) -> None:
    for number in range(1, NUMBERS + 1):
        await asyncio.gather(*(command(client, "add", route, number) for route in ROUTES))
        if number in (NUMBERS // 3, NUMBERS // 2):
            await command(client, "add", ROUTES[number % 7], POISON, message_id=f"poison-{number}")
    path, deaths = tmp_path / "ledger.db", 0
    command_line = [sys.executable, "-m", "tests.bus.worker_process", bus_server.url, str(path)]
    with (tmp_path / "workers.log").open("ab") as log:
        while True:
            process = start(command_line, log)
            try:
                if await done_or_dead(client, process):
                    break
                assert process.wait() == DEATH
                deaths += 1
                assert deaths <= 2 * (DEATHS_TOGETHER + DEATHS_ALONE + SLACK), "it does not end"
            finally:
                process.kill()
                process.wait()
    letters = await messages_in(client, DEAD)
    assert sorted(letter.headers[DEAD_MESSAGE_ID] for letter in letters) == ["poison-20", "poison-30"]
    for letter in letters:
        error = error_from_body(orjson.loads(letter.headers[DEAD_ERROR]))
        assert (type(error), error.detail) == (Internal, "no worker survived it")
    ledger = sqlite_ledger(path)
    await ledger.open()
    for route in ROUTES:
        assert await numbers_of(ledger, route) == list(range(1, NUMBERS + 1)), route
    await ledger.close()


class Owners:
    """Workers that own one partition, one after another."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def begin(self) -> tuple[Members, CrashCounts]:
        members = Members(self._client, "items")
        await members.start()
        crashes = CrashCounts(self._client, "items-p0", members, probation=10)
        await crashes.begin()
        return members, crashes

    async def one_by_one(self) -> bool:
        """Return whether the next owner takes commands one by one, then stop that owner in good order."""
        members, crashes = await self.begin()
        found = crashes.one_by_one
        await crashes.end()
        await members.leave()
        return found


async def test_owners_that_died_on_probation_are_counted(client: Client) -> None:
    owners = Owners(client)
    for _ in range(DEATHS_TOGETHER):
        members, _ = await owners.begin()
        await members.leave()
    assert await owners.one_by_one() is True
    assert await owners.one_by_one() is False, "one that survived ends the count"


@pytest.mark.parametrize("how", ["end", "handled", "idle"])
async def test_owners_that_left_or_survived_are_not_counted(
    client: Client, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(crash_counts, "IDLE_SECONDS", 0.0)
    owners = Owners(client)
    for _ in range(2 * DEATHS_TOGETHER):
        members, crashes = await owners.begin()
        assert not crashes.one_by_one
        if how == "end":
            await crashes.end()
        elif how == "handled":
            await crashes.handled(4)
            await crashes.handled(6)
        else:
            await crashes.idle()
            await crashes.idle()
        await members.leave()
    assert await owners.one_by_one() is False


async def test_owners_that_live_but_lost_the_pin_are_not_counted(client: Client) -> None:
    owners = Owners(client)
    slow = [await owners.begin() for _ in range(2 * DEATHS_TOGETHER)]
    assert not any(crashes.one_by_one for _, crashes in slow)
    for members, crashes in slow:
        assert await crashes.begin_alone(MESSAGE) is False
        await crashes.end()
        await members.leave()
    assert await owners.one_by_one() is False


async def test_a_message_is_fatal_after_deaths_alone_with_it_and_no_other_is(client: Client) -> None:
    owners = Owners(client)
    for _ in range(DEATHS_ALONE):
        members, crashes = await owners.begin()
        assert await crashes.begin_alone(MESSAGE) is False
        await members.leave()
    members, crashes = await owners.begin()
    assert crashes.one_by_one
    assert await crashes.begin_alone(MESSAGE) is True
    assert await crashes.begin_alone(MESSAGE._replace(sequence=8)) is False
    assert await crashes.begin_alone(MESSAGE._replace(stored_at=2_000)) is False
    await members.leave()


@pytest.mark.parametrize("entry", [b"{}", b"\xff", b"[1]", b'{"owners": 5, "sequence": "x"}', b"null"])
async def test_what_is_no_entry_is_an_empty_one(client: Client, entry: bytes) -> None:
    await publish(client, f"$KV.{BEGUN}.items-p0", entry)
    assert await Owners(client).one_by_one() is False


async def test_a_bucket_that_is_gone_holds_up_nobody(client: Client) -> None:
    await ask(client, f"STREAM.DELETE.KV_{BEGUN}")
    members, crashes = await Owners(client).begin()
    assert not crashes.one_by_one
    assert await crashes.begin_alone(MESSAGE) is False
    await crashes.end()
    await members.leave()
