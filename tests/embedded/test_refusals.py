"""`hivemem up` reports each obstacle in one clear line, exits with a failure, and leaves nothing running."""

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from hivemem_testing.ports import LOOPBACK

from .asking import create_session
from .conftest import StartUp
from .up import Up, lives, port_of


@pytest.fixture
def taken_port() -> Iterator[int]:
    with socket.socket() as other:
        other.bind((LOOPBACK, 0))
        other.listen()
        yield int(other.getsockname()[1])


def refusal(up: Up) -> str:
    """Return the one line that it prints before it ends."""
    assert up.wait() == 1
    assert up.stdout == ""
    lines = up.stderr.splitlines()
    assert len(lines) == 1, up.stderr
    assert lines[0].startswith("hivemem up: ")
    return lines[0]


def test_a_taken_nats_port(start_up: StartUp, taken_port: int) -> None:
    up = start_up(nats_port=taken_port)
    assert refusal(up) == (
        f"hivemem up: port {taken_port} is taken: choose another with --nats-port, or 0 for any free one"
    )


def test_a_taken_http_port(start_up: StartUp, taken_port: int) -> None:
    up = start_up(http_port=taken_port)
    assert refusal(up) == (
        f"hivemem up: port {taken_port} is taken: choose another with --http-port, or 0 for any free one"
    )
    pid_file = up.data / "nats" / "pid"
    assert not pid_file.exists() or not lives(up.nats_pid())


async def test_a_second_fleet_on_the_same_folder(start_up: StartUp) -> None:
    first = start_up().ready()
    second = start_up()
    said = refusal(second)
    assert f"{first.data} is in use by another fleet (process {first.process.pid})" in said
    assert "--data" in said
    assert lives(first.nats_pid())
    await create_session(first.nats, "s1")
    assert first.stop() == 0


def test_two_fleets_on_folders_of_their_own(start_up: StartUp, tmp_path: Path) -> None:
    first = start_up().ready()
    second = start_up(data=tmp_path / "other").ready()
    assert port_of(first.nats) != port_of(second.nats)
    assert (first.stop(), second.stop()) == (0, 0)


@pytest.mark.parametrize("below", ["", "data"], ids=["a file in its place", "a file on the way"])
def test_a_folder_that_cannot_be_made(start_up: StartUp, tmp_path: Path, below: str) -> None:
    in_the_way = tmp_path / "file"
    in_the_way.write_text("not a folder")
    said = refusal(start_up(data=in_the_way / below))
    assert said.startswith(f"hivemem up: {in_the_way / below} cannot be made: ")


@pytest.mark.parametrize("file", ["memory.db", "sessions.db", "vectors.db"])
def test_a_store_that_is_none(start_up: StartUp, tmp_path: Path, file: str) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (data / file).write_bytes(b"something else altogether " * 1000)
    up = start_up()
    assert "not a database" in refusal(up)
    pid_file = data / "nats" / "pid"
    assert not pid_file.exists() or not lives(up.nats_pid())


def test_a_misspelt_setting(start_up: StartUp) -> None:
    said = refusal(start_up(settings={"HIVEMEM_STOER": "mongo"}))
    assert said == "hivemem up: HIVEMEM_STOER: there is no such setting; the nearest name is HIVEMEM_STORE"


def test_an_unknown_log_level(start_up: StartUp) -> None:
    up = start_up("--log-level", "loud")
    assert up.wait() == 2
    assert "loud" in up.stderr
    assert not up.data.exists()
