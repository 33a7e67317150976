"""`hivemem tail` prints the feed as lines."""

import asyncio
import signal
from datetime import UTC, datetime, timedelta

import orjson
import pytest
import typer

import hivemem
from hivemem.cli.tail import start_of
from hivemem_contracts.streams import CHANGES
from hivemem_testing.contract import Server
from hivemem_testing.process import ProcessServer

from .commands import invoke, next_line, on_screen, start
from .fleet import Fleet, eventually


async def test_a_line_says_what_happened_where_and_by_whom(shared_server: Server, fleet: Fleet) -> None:
    await fleet.announce("acme", "s1", 1, value={"text": "[red]\x1b[2J", "event_id": "e1", "author": "worker"})
    await fleet.announce("acme", "s2", 7, value=None, value_omitted=True)

    words = ("tail", "--since", "start", "--count", "2")
    first, second = (await on_screen(shared_server.url, *words)).splitlines()
    narrow = (await on_screen(shared_server.url, *words, columns=50)).splitlines()
    piped = [line.split("\t") for line in (await invoke(shared_server.url, *words)).stdout.splitlines()]

    assert first.endswith(r' event.appended s1@1 worker {"text":"[red]\u001b[2J"}')
    assert second.endswith(" event.appended s2@7 worker (over 64 KiB)")
    assert narrow[1] == r'    {"text":"[red]\u001b[2J"}'
    assert [fields[1:7] for fields in piped] == [
        ["event", "appended", "s1", "", "1", "worker"],
        ["event", "appended", "s2", "", "7", "worker"],
    ]
    assert piped[0][0].endswith("Z")


async def test_an_address_that_no_change_has_is_an_error(shared_server: Server, fleet: Fleet) -> None:
    result = await invoke(shared_server.url, "tail", "sessions")

    assert result.exit_code == 1
    assert "did you mean 'session'?" in result.stderr


async def test_json_lines_carry_the_cursor_to_go_on_from(shared_server: Server, fleet: Fleet) -> None:
    for version in (1, 2, 3):
        await fleet.announce("acme", "s1", version)

    words = ("tail", "event.s1", "--json")
    first = await invoke(shared_server.url, *words, "--since", "start", "--count", "2")
    changes = [orjson.loads(line) for line in first.stdout.splitlines()]
    rest = await invoke(shared_server.url, *words, "--since", changes[-1]["cursor"], "--count", "1")

    assert [change["version"] for change in changes] == [1, 2]
    assert orjson.loads(rest.stdout)["version"] == 3


async def test_a_gap_is_told_and_can_be_skipped(shared_server: Server, fleet: Fleet) -> None:
    for version in (1, 2, 3):
        await fleet.announce("acme", "s1", version)
    first = await invoke(shared_server.url, "--json", "tail", "--since", "start", "--count", "1")
    cursor = orjson.loads(first.stdout)["cursor"]
    await fleet.api(f"STREAM.PURGE.{CHANGES}", {"seq": 3})

    told = await invoke(shared_server.url, "tail", "--since", cursor, "--count", "1")
    skipped = await invoke(shared_server.url, "tail", "--since", cursor, "--count", "1", "--skip-gaps")

    assert told.exit_code == 1
    assert "FeedTruncated (41001)" in told.stderr
    assert "\ts1\t\t3\t" in skipped.stdout


async def test_it_goes_on_over_a_kill_and_ctrl_c_says_from_where(own_server: ProcessServer, own_fleet: Fleet) -> None:
    process = await start(own_server.url, "tail", "--since", "start", "--json")
    await own_fleet.announce("acme", "s1", 1)
    first = orjson.loads(await next_line(process))
    await asyncio.to_thread(own_server.kill)
    await asyncio.to_thread(own_server.start)
    await own_fleet.announce("acme", "s1", 2)
    second = orjson.loads(await next_line(process))
    process.send_signal(signal.SIGINT)
    _, stderr = await process.communicate()

    assert (first["version"], second["version"]) == (1, 2)
    assert process.returncode == 130
    assert stderr.decode().startswith(f"go on with: hivemem --url {own_server.url} ")
    assert stderr.decode().endswith(f" tail --json --since {second['cursor']}\n")


async def test_ctrl_c_before_anything_came_is_no_error(own_server: ProcessServer, own_fleet: Fleet) -> None:
    process = await start(own_server.url, "tail")

    async def follows() -> bool:
        return bool((await own_fleet.api(f"CONSUMER.LIST.{CHANGES}"))["consumers"])

    await eventually(follows, "the feed is open")
    process.send_signal(signal.SIGINT)
    _, stderr = await process.communicate()

    assert process.returncode == 130
    assert b"Traceback" not in stderr


@pytest.mark.parametrize(
    ("since", "ago"), [("30s", timedelta(seconds=30)), ("10m", timedelta(minutes=10)), ("2d", timedelta(days=2))]
)
def test_a_duration_is_so_long_ago(since: str, ago: timedelta) -> None:
    moment = start_of(since)

    assert isinstance(moment, datetime)
    assert abs(datetime.now(UTC) - ago - moment) < timedelta(seconds=5)


def test_a_time_without_an_offset_is_local() -> None:
    moment = start_of("2025-06-01T12:00:00")

    assert isinstance(moment, datetime)
    assert moment == datetime(2025, 6, 1, 12).astimezone()


def test_words_and_cursors_stay_as_they_are() -> None:
    cursor = str(hivemem.Cursor(1, 2))

    assert [start_of(since) for since in ("now", "start", cursor)] == ["now", "start", cursor]


@pytest.mark.parametrize("since", ["yesterday", "10 m", "999999999d", "c1"])
def test_a_start_that_is_none_is_refused(since: str) -> None:
    with pytest.raises(typer.BadParameter, match=since):
        start_of(since)
