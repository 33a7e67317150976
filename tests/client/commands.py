"""The command, run in this process with its output captured, or as a process of its own."""

import asyncio
import os
import sys
from collections.abc import Mapping
from typing import Any
from unittest.mock import patch

import orjson
from typer.testing import CliRunner, Result

from hivemem.cli import terminal
from hivemem.cli.app import app

WIDE = {"COLUMNS": "200", "NO_COLOR": "1", "TERM": "dumb"}


async def invoke(url: str, *words: str, stdin: str | None = None) -> Result:
    """Run the command in a thread, because it has an event loop of its own."""
    arguments = ["--url", url, "--tenant", "acme", "--agent", "bot", "--timeout", "5", *words]
    return await asyncio.to_thread(CliRunner().invoke, app, arguments, input=stdin, env=WIDE, prog_name="hivemem")


async def on_screen(url: str, *words: str, columns: int = 80) -> str:
    """Run the command as on a terminal of this width, and return its output without colours."""
    with (
        patch.object(terminal, "is_there", return_value=True),
        patch.object(terminal, "width", return_value=columns),
    ):
        result = await invoke(url, *words)
    assert result.exit_code == 0, result.output
    return result.stdout


async def invoke_json(url: str, *words: str, stdin: str | None = None) -> Any:
    """Run the command with `--json`, and return the one document that it prints."""
    result = await invoke(url, "--json", *words, stdin=stdin)
    (line,) = result.stdout.splitlines()
    return orjson.loads(line)


async def start(url: str, *words: str, environment: Mapping[str, str] | None = None) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "hivemem", "--url", url, "--tenant", "acme", *words),
        env={**os.environ, **WIDE, **(environment or {})},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )


async def in_a_terminal(url: str, *words: str, typed: str = "", code: int = 0) -> str:
    """Run the command on a terminal where someone types, and return its output with the control sequences."""
    ours, theirs = os.openpty()
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "hivemem", "--url", url, "--tenant", "acme", *words),
        env={**os.environ, **WIDE, "TERM": "xterm"},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    os.write(ours, typed.encode())
    shown = await asyncio.to_thread(_until_closed, ours)
    assert await process.wait() == code, shown
    return shown


def _until_closed(terminal: int) -> str:
    shown = b""
    try:
        while part := os.read(terminal, 65_536):
            shown += part
    except OSError:  # on Linux this error means that the other end of the terminal is closed
        pass
    finally:
        os.close(terminal)
    return shown.decode()


async def next_line(process: asyncio.subprocess.Process) -> str:
    assert process.stdout is not None
    async with asyncio.timeout(15):
        return (await process.stdout.readline()).decode().rstrip("\n")
