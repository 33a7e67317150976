"""`hivemem artifacts` saves and reads whole files."""

import asyncio
from pathlib import Path

import orjson
import pytest
from typer.testing import CliRunner, Result

from hivemem.cli.app import app

from .conftest import Deployment
from .hive import Agent

pytestmark = pytest.mark.asyncio(loop_scope="session")

WIDE = {"COLUMNS": "200", "NO_COLOR": "1", "TERM": "dumb"}


async def invoke(deployment: Deployment, bot: Agent, *words: str, stdin: bytes | None = None) -> Result:
    """Run the command in a thread, because it has an event loop of its own."""
    arguments = ["--url", deployment.settings.nats_url, "--tenant", bot.tenant, "--agent", "bot", "artifacts", *words]
    return await asyncio.to_thread(CliRunner().invoke, app, arguments, input=stdin, env=WIDE)


def names_in(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


async def test_a_file_goes_there_and_back(
    deployment: Deployment, bot: Agent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    data = b"line\n" * 300_000
    report, other = tmp_path / "report.txt", tmp_path / "other.txt"
    report.write_bytes(data)
    sent = await invoke(deployment, bot, "upload", "s1", "report.txt", "--metadata", '{"n": 1}')
    assert (sent.exit_code, sent.stderr) == (0, "")
    url = f"hive://{bot.tenant}/s1/report.txt?version=1"
    assert sent.stdout == f"{url}\t1500000\ttext/plain; charset=utf-8\n"
    assert (await bot.stat("report.txt"))["metadata"] == {"n": 1}
    report.unlink()
    for words in (("s1", "report.txt"), (url,), ("s1", "report.txt", "--version", "1", "--output", "other.txt")):
        got = await invoke(deployment, bot, "download", *words)
        assert (got.exit_code, got.stdout) == (0, sent.stdout)
    assert report.read_bytes() == other.read_bytes() == data
    assert names_in(tmp_path) == {"other.txt", "report.txt"}


async def test_standard_input_and_output_will_do(deployment: Deployment, bot: Agent) -> None:
    sent = await invoke(deployment, bot, "upload", "s1", "-", "--name", "a/b.bin", "--json", stdin=b"\x00\x01piped")
    assert orjson.loads(sent.stdout)["name"] == "a/b.bin"
    got = await invoke(deployment, bot, "download", "s1", "a/b.bin", "-o", "-", "--json")
    assert got.stdout_bytes == b"\x00\x01piped"
    assert orjson.loads(got.stderr)["version"] == 1


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("upload", "s1", "nothing-there"), 2, "is not a readable file"),
        (("upload", "s1", "-"), 2, "standard input has no name"),
        (("upload", "s1", ".", "--name", "a"), 2, "is not a readable file"),
        (("download", "s1"), 2, "give a session and a name, or only a URL"),
        (("download", "s1", "a"), 1, "NotFound (40401)"),
        (("download", "s1", "../a"), 1, "InvalidRequest (40001)"),
        (("download", "hive://other/s1/a", "-o", "x"), 1, "Forbidden (40301)"),
    ],
)
async def test_what_cannot_be_done_is_said(
    deployment: Deployment, bot: Agent, words: tuple[str, ...], code: int, said: str
) -> None:
    result = await invoke(deployment, bot, *words)
    assert result.exit_code == code
    assert said in result.stderr


async def test_where_nothing_can_be_written_it_is_said(deployment: Deployment, bot: Agent, tmp_path: Path) -> None:
    await bot.save("a", b"x")
    result = await invoke(deployment, bot, "download", "s1", "a", "-o", str(tmp_path / "no" / "folder"))
    assert result.exit_code == 2
    assert "cannot be written" in result.stderr
