"""The examples of the pages and of the client's docstrings work as written."""

import ast
import re
import subprocess
from codeop import CommandCompiler
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

import hivemem

from .fleet import Fleet
from .markdown import ROOT, SHELL, Block, blocks, docstring_blocks, links, name_of, pages
from .playing import Player

README: Final = ROOT / "README.md"
PAGES: Final = list(
    dict.fromkeys(
        [
            README,
            *(ROOT / path for _, target in links(README) if (path := target.partition("#")[0]).endswith(".md")),
            *sorted((ROOT / "docs").glob("*.md")),
        ]
    )
)
"""All pages, in the order in which the README leads to them: a reader has one fleet for all of them."""
PROMPT_OR_REMARK: Final = re.compile(r"^\s*[$#>] |\s# ", re.MULTILINE)
"""Many shells take a remark for arguments."""
PUBLIC: Final[list[tuple[str, object]]] = [
    ("hivemem", hivemem),
    *((f"hivemem.{name}", getattr(hivemem, name)) for name in dir(hivemem)),
]


def playable(block: Block) -> bool:
    return block.language in ("python", SHELL)


def interactive_fault(text: str) -> str | None:
    """Return why the interpreter that awaits cannot read a text line by line, or None."""
    compiled = CommandCompiler()
    compiled.compiler.flags |= ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    statement: list[str] = []
    for line in (*text.splitlines(), ""):
        statement.append(line)
        try:
            if compiled("\n".join(statement)) is not None:
                statement = []
        except SyntaxError as error:
            return f"{error.msg}, at {line!r}"
    return "it has no end" if statement else None


@pytest.fixture
def player(fleet: Fleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Player]:
    # The examples use the default port of `hivemem up`; this fleet has another one.
    monkeypatch.setenv("HIVEMEM_URL", fleet.url)
    monkeypatch.chdir(tmp_path)
    with Player(fleet, tmp_path) as player:
        yield player


@pytest.mark.parametrize("page", [page for page in PAGES if any(map(playable, blocks(page)))], ids=name_of)
def test_a_page_runs_from_top_to_bottom(page: Path, player: Player) -> None:
    for block in blocks(page):
        player.play(block)


@pytest.mark.parametrize(
    "example",
    [block for where, documented in PUBLIC for block in docstring_blocks(where, documented)],
    ids=lambda block: block.source,
)
def test_an_example_of_a_docstring_runs(example: Block, player: Player) -> None:
    assert player.play(example)


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_blocks_can_be_pasted(page: Path) -> None:
    """Commands have no prompts, outputs or remarks among them, and Python is a program or fits the interpreter."""
    for block in blocks(page):
        here = f"{block.source}:{block.line}"
        assert block.language not in ("console", "shell"), f"{here}: commands are `sh`, or `bash` if they are not run"
        if block.language in (SHELL, "bash"):
            assert not PROMPT_OR_REMARK.search(block.text), here
            subprocess.run(["bash", "-n"], input=block.text, text=True, check=True)
        elif block.language == "python" and "asyncio.run(" not in block.text:
            assert (fault := interactive_fault(block.text)) is None, f"{here}: {fault}"
