"""The shell completes commands, options, choices and names from the fleet, and executes none of them."""

import asyncio
from pathlib import Path

import pytest
from typer.testing import CliRunner

import hivemem
from hivemem.cli import completion
from hivemem.cli.app import app
from hivemem.cli.completion import candidates, for_bash, split
from hivemem.cli.completion_scripts import SCRIPTS
from hivemem_contracts.memory.replies import MemoryPage, NamespacePage
from hivemem_contracts.sessions.replies import SessionPage
from hivemem_testing.contract import Server

from .fleet import Fleet
from .test_cli_memory import version
from .test_cli_operations import SESSION

BREAKS = " \t\n\"'@><=;|&(:"
TRAP = "k $(touch trap) `touch trap`; touch trap"
ROOT = ("--tenant", "acme", "--agent", "bot")


@pytest.fixture
def names(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fleet with a few names, some of them hostile, that may be slow."""
    monkeypatch.setattr(completion, "FLEET_SECONDS", 30.0)
    ids = ["s1", "--yes", "two\nlines", "s2 x"]
    sessions = [SESSION.model_copy(update={"session_id": id}) for id in ids]
    fleet.answers["list"] = lambda _: SessionPage(items=sessions, cursor=None)
    keys = [("user:alice", "seat"), ("user:alice", TRAP), ("user:alice:travel", "deeper")]
    items = [version(1, namespace=namespace, key=key) for namespace, key in keys]
    fields = hivemem.Memory.model_fields.keys()
    page = MemoryPage(items=[hivemem.Memory(**item.model_dump(include=set(fields))) for item in items], cursor=None)
    fleet.answers["memory.list"] = lambda _: page
    fleet.answers["memory.namespaces"] = lambda _: NamespacePage(items=["user:alice", "user:alice:travel"], cursor=None)


async def offered(url: str, *words: str, incomplete: str = "") -> list[str]:
    found = await asyncio.to_thread(candidates, ["--url", url, *ROOT, *words], incomplete)
    return [value for value, _ in found]


@pytest.mark.parametrize(
    ("words", "incomplete", "expected"),
    [
        ((), "sess", ["sessions"]),
        (("sessions",), "arch", ["archive"]),
        (("sessions", "list"), "--app", ["--app-name"]),
        (("sessions", "list", "--status"), "a", ["active", "archived"]),
        (("sessions", "list"), "--status=p", ["--status=paused"]),
        (("sessions", "set-status", "s1"), "te", ["terminated"]),
        (("memory", "import", "file", "--existing"), "", ["update", "keep"]),
        (("memory", "get"), "us", ["user:"]),
        (("nothing", "like", "it"), "", []),
    ],
)
async def test_words_of_the_command_need_no_fleet(words: tuple[str, ...], incomplete: str, expected: list[str]) -> None:
    assert await offered("nats://127.0.0.1:1", *words, incomplete=incomplete) == expected


@pytest.mark.usefixtures("names")
async def test_names_come_from_the_fleet_by_position_and_by_option(shared_server: Server) -> None:
    url = shared_server.url

    # A name with a line end would be two words, and one that looks like an option would be one.
    assert await offered(url, "sessions", "get") == ["s1", "s2 x"]
    assert await offered(url, "recall", "where", "--session-id") == ["s1", "s2 x"]
    assert await offered(url, "memory", "get", incomplete="user:a") == ["user:alice", "user:alice:travel"]
    assert await offered(url, "memory", "get", "user:alice") == ["seat", TRAP]
    assert await offered(url, "memory", "get", "--namespace", "user:alice", "--key", incomplete="s") == ["seat"]


async def test_without_a_fleet_there_are_no_names() -> None:
    with pytest.raises(Exception, match="connection refused"):
        await offered("nats://127.0.0.1:1", "sessions", "get")


@pytest.mark.parametrize(
    ("line", "words", "quoted"),
    [
        ("hivemem a ", ["hivemem", "a", ""], False),
        ("hivemem a\\ b", ["hivemem", "a b"], False),
        ("hivemem 'a b' c", ["hivemem", "a b", "c"], False),
        ('hivemem "a b', ["hivemem", "a b"], True),
        ("hivemem a\\", ["hivemem", "a"], False),
        ("hivemem $(x) #y", ["hivemem", "$(x)", "#y"], False),
    ],
)
def test_a_line_is_split_as_typed(line: str, words: list[str], quoted: bool) -> None:
    assert split(line) == (words, quoted)


@pytest.mark.usefixtures("names")
async def test_bash_gets_words_that_need_no_more_quoting(shared_server: Server) -> None:
    start = f"hivemem --url {shared_server.url} {' '.join(ROOT)} memory get"

    async def lines(typed: str) -> list[str]:
        return await asyncio.to_thread(lambda: list(for_bash(f"{start} {typed}", BREAKS)))

    # Bash replaces only what follows its last word break.
    assert await lines("user:a") == ["alice", "alice:travel"]
    assert await lines('"user:a') == ["user:alice", "user:alice:travel"]
    # Where quotes and word breaks mix, nothing fits.
    assert await lines("user\\:a") == []


@pytest.mark.usefixtures("names")
async def test_bash_completes_hostile_names_without_executing_them(shared_server: Server, tmp_path: Path) -> None:
    line = f"hivemem --url {shared_server.url} {' '.join(ROOT)} memory get user:alice k"
    answer = await asyncio.to_thread(lambda: list(for_bash(line, BREAKS)))
    (tmp_path / "answer").write_text("\n".join(answer) + "\n")
    (tmp_path / "script").write_text(SCRIPTS["bash"])
    # The completed word is then evaluated, as it is when the user presses Enter.
    test = """
        source ./script
        hivemem() { cat answer; }
        COMP_LINE="hivemem k" COMP_POINT=9
        _hivemem_completion hivemem
        eval "printf %s ${COMPREPLY[0]}"
    """
    process = await asyncio.create_subprocess_exec(
        *("/bin/bash", "--norc", "-c", test), cwd=tmp_path, stdout=asyncio.subprocess.PIPE
    )
    stdout, _ = await process.communicate()

    assert stdout.decode() == TRAP
    assert not (tmp_path / "trap").exists()


@pytest.mark.parametrize(("shell", "start"), [("bash", ".bashrc"), ("zsh", ".zshrc"), ("fish", "")])
def test_completion_is_installed_once(shell: str, start: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("SHELL", f"/bin/{shell}")

    first = CliRunner().invoke(app, ["--install-completion"])
    files = {path: path.read_text() for path in tmp_path.rglob("*") if path.is_file()}
    second = CliRunner().invoke(app, ["--install-completion"])

    assert (first.exit_code, second.exit_code) == (0, 0)
    assert {path: path.read_text() for path in tmp_path.rglob("*") if path.is_file()} == files
    assert len(files) == 1 + bool(start)


def test_an_unknown_shell_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHELL", "/bin/tcsh")

    result = CliRunner(env={"COLUMNS": "200"}).invoke(app, ["--install-completion"])

    assert result.exit_code == 2
    assert "/bin/tcsh" in result.stderr
