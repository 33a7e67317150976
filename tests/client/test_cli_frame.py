"""The command as a whole: help, versions, plugins, the benchmark."""

import asyncio
import re
import subprocess
import sys
from collections import Counter
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
import typer
from pydantic import BaseModel
from typer.testing import CliRunner

from hivemem.cli import app as root
from hivemem.cli import main
from hivemem.cli.app import Subcommands, app
from hivemem.cli.counts import counted
from hivemem.cli.summaries import SERVICES
from hivemem_contracts import catalog
from hivemem_contracts.sessions.replies import SessionDeleted, SessionView
from hivemem_contracts.streams import INGEST
from hivemem_testing.contract import Server

from .commands import WIDE, invoke, invoke_json, start
from .fleet import Asked, Fleet
from .test_cli_operations import MOMENT, SESSION


def test_the_services_that_help_lists_are_those_of_the_registry() -> None:
    assert {service.name: service.summary for service in catalog.SERVICES} == SERVICES


async def test_help_lists_everything(shared_server: Server) -> None:
    process = await start(shared_server.url, "--help")
    stdout, _ = await process.communicate()
    shown = stdout.decode()

    assert process.returncode == 0
    assert all(word in shown for word in ("up", "sessions", "tail", "dead", "bench", "doctor", "version", "130"))


@pytest.mark.parametrize("words", [(), ("memory",), ("memory", "put"), ("tail",), ("dead", "list"), ("up",)])
async def test_every_level_has_short_help(words: tuple[str, ...]) -> None:
    short = await invoke("nats://127.0.0.1:1", *words, "-h")
    long = await invoke("nats://127.0.0.1:1", *words, "--help")

    assert short.exit_code == 0
    assert short.stdout == long.stdout


@pytest.mark.parametrize("words", [("recall",), ("memory", "import"), ("up",), ("bench",)])
def test_help_in_80_columns_breaks_no_name_of_a_type(words: tuple[str, ...]) -> None:
    shown = CliRunner().invoke(app, [*words, "--help"], env={**WIDE, "COLUMNS": "80"}, prog_name="hivemem").stdout

    assert not re.findall(r"<[a-z_]+(?:\|[a-z_]*)+ ", shown)


async def test_what_a_subcommand_needs_is_not_imported_for_help() -> None:
    heavy = "('nats', 'pydantic', 'orjson')"
    code = f"import sys; import hivemem.cli.app; sys.exit(any(name in sys.modules for name in {heavy}))"
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", code)

    assert await process.wait() == 0


async def test_versions_are_told() -> None:
    result = await invoke("nats://127.0.0.1:1", "version")
    document = await invoke_json("nats://127.0.0.1:1", "version")

    assert result.exit_code == 0
    assert document["nats-py"] in result.stdout
    assert (await invoke("nats://127.0.0.1:1", "--version")).stdout == f"hivemem {document['hivemem']}\n"


def test_the_command_runs_with_a_closed_output(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdout", None)
    monkeypatch.setattr("sys.argv", ["hivemem", "--version"])
    with pytest.raises(SystemExit) as ended:
        main()
    sys.stdout.close()

    assert ended.value.code == 0


def test_a_full_disk_under_the_output_is_one_line() -> None:
    with Path("/dev/full").open("w") as full:
        command = [sys.executable, "-m", "hivemem", "--version"]
        ended = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)

    assert (ended.returncode, ended.stderr) == (1, "standard output: No space left on device\n")


def test_the_environment_sets_the_global_options(shared_server: Server) -> None:
    runner = CliRunner(env={**WIDE, "HIVEMEM_URL": "nats://127.0.0.1:2", "HIVEMEM_TENANT": "x", "HIVEMEM_AGENT": "y"})

    result = runner.invoke(app, ["--timeout", "0.2", "sessions", "list"])

    assert result.exit_code == 3
    assert "127.0.0.1:2" in result.stderr


def plugins(monkeypatch: pytest.MonkeyPatch, *entries: EntryPoint) -> typer.Typer:
    def found(group: str) -> tuple[EntryPoint, ...]:
        assert group == "hivemem.commands"
        return entries

    monkeypatch.setattr(root, "entry_points", found)
    fresh = typer.Typer(cls=Subcommands, no_args_is_help=True)
    fresh.callback()(root.root)
    return fresh


def test_up_says_which_package_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    result = CliRunner(env=WIDE).invoke(plugins(monkeypatch), ["up"])

    assert result.exit_code == 1
    assert "hivemem-embedded, which the extra hivemem[up] brings" in result.stderr


def sing(loud: bool = False) -> None:
    """Sing."""
    typer.echo("LA" if loud else "la")


choir = typer.Typer()
choir.command()(sing)


@choir.callback()
def conduct() -> None:
    """A choir."""


def test_another_package_can_add_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    entries = [EntryPoint(name, f"{__name__}:{name}", "hivemem.commands") for name in ("sing", "choir")]
    fresh = plugins(monkeypatch, *entries)
    runner = CliRunner(env=WIDE)

    assert runner.invoke(fresh, ["sing", "--loud"]).stdout == "LA\n"
    assert runner.invoke(fresh, ["choir", "sing"]).stdout == "la\n"
    assert "choir" in runner.invoke(fresh, ["--help"]).stdout


class Bench:
    """The part of the service that the benchmark uses."""

    def __init__(self, fleet: Fleet) -> None:
        self.deleted: list[str] = []
        self.published: Counter[str] = Counter()
        fleet.answers |= {"create": self.create, "delete": self.delete, "get": self.get}

    def create(self, asked: Asked) -> BaseModel:
        return SESSION.model_copy(update={"session_id": asked.body["session_id"]})

    def delete(self, asked: Asked) -> BaseModel:
        self.deleted.append(asked.body["session_id"])
        return SessionDeleted(session_id=asked.body["session_id"], revision=9, deleted_at=MOMENT)

    def get(self, asked: Asked) -> BaseModel:
        return SessionView(session=SESSION.model_copy(update={"event_count": 10**9}), events=[])


async def test_the_benchmark_measures_and_cleans_up(shared_server: Server, fleet: Fleet) -> None:
    bench = Bench(fleet)

    result = await invoke(shared_server.url, "bench", "--sessions", "3", "--seconds", "0.2")
    document = await invoke_json(shared_server.url, "bench", "--sessions", "2", "--seconds", "0.2")

    assert result.exit_code == 0, result.output
    assert "per_second" in result.stdout
    assert document["appends"] > 0
    assert 0 < document["p50_ms"] <= document["p95_ms"] <= document["p99_ms"]
    assert len(set(bench.deleted)) == 5


@pytest.mark.parametrize(("count", "said"), [(0, "0 events"), (1, "1 event"), (1_200, "1,200 events")])
def test_a_number_has_its_noun(count: int, said: str) -> None:
    assert counted(count, "event") == said


async def test_the_durable_benchmark_publishes(shared_server: Server, fleet: Fleet) -> None:
    Bench(fleet)

    document = await invoke_json(shared_server.url, "bench", "--sessions", "2", "--seconds", "0.2", "--durable")

    assert document["carried_out_per_second"] > 0
    state = (await fleet.api(f"STREAM.INFO.{INGEST}"))["state"]
    assert state["messages"] == document["appends"]
