"""Runs the blocks of a page one after another, as a reader who follows the page does.

Python runs as in `python -m asyncio`, with the names of earlier blocks; an endless loop over the feed ends with the
first line that it prints; `# …` after a `print` is expected output, and each such line has to appear, in this order.

Commands run in a shell, with a terminal of 80 columns. A block of text right after a block of commands is the whole
screen of the last one, as it is but for times, ids, durations and the like. `…` matches any text, and on a line of its
own any lines. A command without a screen may print anything.
"""

import ast
import asyncio
import gc
import inspect
import io
import os
import re
import select
import shlex
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout
from pathlib import Path
from types import CodeType, TracebackType
from typing import Any, Final, Self

import orjson
from nats.aio.client import Client

from .fleet import Fleet
from .markdown import ROOT, SHELL, Block

BLOCK_SECONDS: Final = 30.0
NOT_RUN: Final = {"source", "docker", "cd"}
"""Commands that are not run: the environment exists already, and compose has tests of its own."""
IN_A_SHELL: Final = {"hivemem", "python", "echo", "cat", "curl"}

_PRINTED: Final = re.compile(r"^\s*print\(.*\)  # (.+)$")
_ENDLESS_TAIL: Final = re.compile(r"^hivemem (?:--\S+ )*tail(?!.*--count)")
_READS: Final = re.compile(r"^hivemem (?:--\S+ )*(?:dead (?:list|show)|sessions (?:get|events|list|state-get)) ?")
_VARYING: Final = [
    (re.compile(pattern), name)
    for pattern, name in (
        (r"\b\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)", "<time>"),
        (r"\b[0-9A-HJKMNP-TV-Z]{26}\b", "<id>"),
        (r"\b[0-9a-f]{64}\b", "<digest>"),
        (r"\b\d+\.\d+\.\d+\b(?!\.)", "<version>"),
        (r"\b[\d,]+(?:\.\d+)? (bytes|messages|ms|MiB|s|streams)\b", r"<number> \1"),
        (r"\b\d\.\d{3}\b", "<score>"),
    )
]
"""What differs from run to run, with the word that replaces it in a comparison."""
_COLOUR: Final = re.compile(r"\x1b\[[\d;]*m")
_TARGET: Final = re.compile(r"^([a-z-]+):", re.MULTILINE)


class FirstLine(io.StringIO):
    """Output that signals its first line."""

    def __init__(self) -> None:
        super().__init__()
        self.there = asyncio.Event()

    def write(self, text: str, /) -> int:
        if "\n" in text:
            self.there.set()
        return super().write(text)


class Player:
    def __init__(self, fleet: Fleet, directory: Path) -> None:
        self._fleet = fleet
        self._directory = directory
        self._names: dict[str, Any] = {"__name__": "__main__"}
        self._runner = asyncio.Runner()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._runner.close()

    def play(self, block: Block) -> bool:
        """Run a block; return False if its language is not run."""
        if block.language == "python":
            self._python(block)
        elif block.language == SHELL:
            for command, expected in commands(block):
                self._check_command(block, command, expected)
        return block.language in ("python", SHELL)

    def _python(self, block: Block) -> None:
        text = self._fleet.here(block.text)
        # A traceback then names the page and the line in it.
        source = "\n" * (block.line - 1) + text
        code = compile(source, block.source, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        output = FirstLine()
        with redirect_stdout(output):
            if code.co_flags & inspect.CO_COROUTINE:
                self._runner.run(self._awaited(code, output, endless=_is_endless(_parsed(source))))
            else:
                exec(code, self._names)
        expected = [found[1] for line in text.splitlines() if (found := _PRINTED.match(line))]
        shown = self._fleet.as_written(output.getvalue())
        missing = first_missing(expected, shown)
        assert missing is None, f"{block.source}:{block.line}: no line {missing!r} (in this place) of\n{shown}"

    async def _awaited(self, code: CodeType, output: FirstLine, *, endless: bool) -> None:
        running = asyncio.ensure_future(eval(code, self._names))
        printed = asyncio.ensure_future(output.there.wait())
        waiting = {running, printed} if endless else {running}
        done, _ = await asyncio.wait(waiting, timeout=BLOCK_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        finished = running in done
        for task in (running, printed):
            task.cancel()
        await asyncio.gather(running, printed, return_exceptions=True)
        assert done, f"still running after {BLOCK_SECONDS:.0f} s, with this output: {output.getvalue()}"
        if finished:
            running.result()

    def _check_command(self, block: Block, command: str, expected: Sequence[str]) -> None:
        """Run a command and check its output. Reads are retried, since an earlier durable command may still be on its
        way."""
        deadline = time.monotonic() + BLOCK_SECONDS
        while True:
            output = self._fleet.as_written(self._command(command, expected))
            if not expected or is_screen(expected, output):
                return
            retry = _READS.match(command) and time.monotonic() < deadline
            assert retry, f"{block.source}: $ {command}\nthe screen differs from\n{output}"

    def _command(self, command: str, expected: Sequence[str]) -> str:
        words = shlex.split(command)
        program = words[0]
        if program == "make":
            assert words[1] in _TARGET.findall((ROOT / "Makefile").read_text()), f"make knows no {words[1]}"
            return self._fleet.ready_line if words[1] == "up" else "\n".join(expected)
        if program in NOT_RUN:
            return "\n".join(expected)
        if program == "nats":
            return self._runner.run(self._nats(words[1:]))
        assert program in IN_A_SHELL, f"nobody runs {program!r} here"
        endless = _ENDLESS_TAIL.match(command) is not None
        arguments = words if endless else ["bash", "-c", self._fleet.here(command)]
        status, shown = on_terminal(arguments, self._directory, self._fleet.environment(), endless=endless)
        assert status == (130 if endless else 0), f"$ {command}\n{shown}"
        return shown

    async def _nats(self, words: Sequence[str]) -> str:
        """Do the work of `nats request SUBJECT BODY [-H NAME:VALUE]` where that program is not installed."""
        verb, subject, body, *rest = words
        assert {verb, *rest[::2]} <= {"request", "-H"}, f"not a request: {words}"
        headers = {name: value for name, _, value in (header.partition(":") for header in rest[1::2])}
        client = Client()
        await client.connect(self._fleet.url)
        try:
            answer = await client.request(subject, body.encode(), timeout=5, headers=headers or None)
        finally:
            await client.close()
        assert "error" not in orjson.loads(answer.data), answer.data
        return answer.data.decode()


def commands(block: Block) -> list[tuple[str, list[str]]]:
    """Return each command of a block, the last one with its expected screen."""
    found = [(command.strip(), list[str]()) for command in re.sub(r"\\\n *", "", block.text).splitlines()]
    found[-1][1].extend((block.screen or "").splitlines())
    return found


def on_terminal(
    arguments: Sequence[str], directory: Path, environment: Mapping[str, str], *, endless: bool
) -> tuple[int, str]:
    """Run a program whose output is a terminal; return its status and its output without colours. Ctrl-C ends an
    endless one after its first line."""
    ours, theirs = os.openpty()
    process = subprocess.Popen(
        arguments,
        cwd=directory,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=subprocess.PIPE,
    )
    os.close(theirs)
    deadline = time.monotonic() + BLOCK_SECONDS
    shown = b""
    try:
        while part := _read(ours, deadline):
            shown += part
            if endless and b"\n" in part:
                process.send_signal(signal.SIGINT)
                endless = False
        _, said = process.communicate(timeout=BLOCK_SECONDS)
    finally:
        os.close(ours)
        process.kill()
        process.wait()
        if process.stderr is not None:
            process.stderr.close()
    return process.returncode, _COLOUR.sub("", (shown + said).decode()).replace("\r\n", "\n")


def _read(terminal: int, deadline: float) -> bytes:
    """Return the next output, or nothing after the last program on the terminal has ended."""
    ready, _, _ = select.select([terminal], [], [], deadline - time.monotonic())
    assert ready, "still running, with nothing more to read"
    try:
        return os.read(terminal, 65_536)
    except OSError:  # on Linux this error means that the other end of the terminal is closed
        return b""


def is_screen(expected: Sequence[str], output: str) -> bool:
    """Return whether the expected lines are the whole output."""
    pattern = "".join(
        "(?:.*\n)*?" if line == "…" else ".*".join(map(re.escape, _steady(line).split("…"))) + "\n" for line in expected
    )
    return re.fullmatch(pattern, "".join(f"{_steady(line)}\n" for line in output.splitlines())) is not None


def _steady(line: str) -> str:
    for varying, name in _VARYING:
        line = varying.sub(name, line)
    return line.rstrip()


def first_missing(expected: Sequence[str], output: str) -> str | None:
    """Return the first expected line that is not in the output in its place. The output may have other lines in
    between."""
    lines = (_spaced(line) for line in output.splitlines())
    for wanted in expected:
        pattern = ".*".join(re.escape(part) for part in _spaced(wanted).split("…"))
        if not any(re.fullmatch(pattern, line) for line in lines):
            return wanted
    return None


def _spaced(line: str) -> str:
    """Collapse spaces, since the width of a column depends on its content."""
    return " ".join(line.split())


def _parsed(source: str) -> ast.Module:
    """Parse without the collector. It may format a traceback, which parses too; Python 3.11 cannot do both at once."""
    gc.disable()
    try:
        return ast.parse(source)
    finally:
        gc.enable()


def _is_endless(tree: ast.Module) -> bool:
    """Return whether the last statement follows the feed without an end."""
    last: ast.AST = tree.body[-1]
    while isinstance(last, ast.AsyncWith | ast.With):
        last = last.body[-1]
    ends = (ast.Break, ast.Return, ast.Raise)
    return isinstance(last, ast.AsyncFor) and not any(isinstance(inner, ends) for inner in ast.walk(last))
