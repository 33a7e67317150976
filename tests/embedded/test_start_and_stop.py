"""`hivemem up` starts within moments, reports that in one line, and leaves nothing behind when it stops."""

import signal
import stat
import sys
from pathlib import Path

import pytest

from hivemem_testing.ports import LOOPBACK
from hivemem_testing.readiness import accepts

from .asking import create_session, recall, remember, save
from .conftest import StartUp
from .sockets import listening_addresses
from .up import eventually, lives, port_of, processor_seconds

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks at processes through /proc")

LOOPBACK_AS_THE_KERNEL_WRITES_IT = "0100007F"
FEW_SECONDS = 8.0
"""Processor time, which does not depend on how busy the machine is."""


async def test_ready_means_that_requests_are_answered_and_costs_a_few_seconds(start_up: StartUp) -> None:
    up = start_up().ready()
    assert processor_seconds(up.process.pid) < FEW_SECONDS
    await create_session(up.nats, "s1")
    assert up.stop() == 0
    assert up.stdout.count("\n") == 1
    assert up.stderr == ""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_cleanly(start_up: StartUp, number: signal.Signals) -> None:
    up = start_up().ready()
    server = up.nats_pid()
    assert up.stop(number) == 0
    assert not lives(server)
    assert not accepts(LOOPBACK, port_of(up.nats))
    assert not accepts(LOOPBACK, port_of(up.http))


def test_told_to_stop_while_it_starts_it_leaves_nothing_behind(start_up: StartUp) -> None:
    up = start_up()
    pid_file = up.data / "nats" / "pid"
    eventually(lambda: pid_file.is_file() and pid_file.read_text().isdecimal(), "the server was started")
    server = up.nats_pid()
    assert up.stop() == 0
    assert not lives(server)


def test_kill_9_takes_its_nats_server_along(start_up: StartUp) -> None:
    up = start_up().ready()
    server = up.nats_pid()
    up.kill()
    eventually(lambda: not lives(server), "the nats-server is gone")


def test_listens_on_loopback_alone(start_up: StartUp) -> None:
    up = start_up().ready()
    # The launcher became the command, so its process is that of the fleet.
    for pid in (up.process.pid, up.nats_pid()):
        assert listening_addresses(pid) == {LOOPBACK_AS_THE_KERNEL_WRITES_IT}


async def test_its_files_and_folders_are_for_their_owner_alone(start_up: StartUp) -> None:
    """The command is started with a umask that removes no permission."""
    up = start_up().ready()
    await create_session(up.nats, "s1")
    await remember(up.nats, "mood", "calm")
    await save(up.nats, "a.txt", b"bytes")
    await recall(up.nats, "mood", wait_ms=4_000)
    assert up.stop() == 0
    kept = {path: stat.S_IMODE(path.stat().st_mode) for path in [up.data, *up.data.rglob("*")]}
    assert {path.suffix for path in kept} >= {".db", ".log", ".conf"}
    assert {str(path): oct(mode) for path, mode in kept.items() if mode & 0o077} == {}


@pytest.mark.parametrize("name", ["with spaces and 'quotes'", "ünïcode 記憶 🐝", 'double "quotes" and \\ and $HOME #'])
async def test_any_path_will_do(start_up: StartUp, tmp_path: Path, name: str) -> None:
    data = tmp_path / name / "data"
    up = start_up(data=data).ready()
    await create_session(up.nats, "s1")
    assert up.stop() == 0
    assert (data / "nats" / "jetstream" / "jetstream").is_dir()
    assert not any(entry.name != "data" for entry in (tmp_path / name).iterdir())


def test_relative_path_is_below_where_it_was_started(start_up: StartUp, tmp_path: Path) -> None:
    up = start_up(data=Path("here"))
    eventually(lambda: f"data={tmp_path / 'run0' / 'here'}\n" in up.stdout, "a ready line with the whole path")
    assert up.stop() == 0


def test_nothing_of_a_stopped_fleet_is_left_open(start_up: StartUp) -> None:
    """A second fleet can use the same folder and the same ports at once."""
    up = start_up().ready()
    ports = {"nats_port": port_of(up.nats), "http_port": port_of(up.http)}
    assert up.stop() == 0
    again = start_up(**ports).ready()
    assert (again.nats, again.http) == (up.nats, up.http)
    assert again.data.samefile(up.data)
