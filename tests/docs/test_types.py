"""The Python of the pages passes both type checkers, strictly, as a user's program would."""

import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Final

import pytest

from .fleet import BIN
from .markdown import ROOT, Block, blocks

PAGES: Final = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
CHECK_SECONDS: Final = 300.0
RELAXED: Final = ("UnusedVariable", "UnusedFunction", "UnusedImport", "UnusedExpression", "UnknownMemberType")
"""The rules of pyright that a page cannot follow: it does not use each name that it shows, and nats-py has no types for
its options."""

pytestmark = pytest.mark.timeout(2 * CHECK_SECONDS)


def python_of(page: Path) -> list[Block]:
    return [block for block in blocks(page) if block.language == "python"]


def as_program(page: list[Block]) -> str:
    """Return the blocks as the body of one function, where `await` is allowed, each line at its place in the page."""
    relaxed = ", ".join(f"report{rule}=false" for rule in RELAXED)
    lines = [f"# pyright: {relaxed}"]
    for block in page:
        lines += [""] * (block.line - 1 - len(lines))
        lines += textwrap.indent(block.text, "    ").splitlines()
    lines[page[0].line - 2] = "async def example() -> None:"
    return "\n".join(lines) + "\n"


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pages")
    for page in PAGES:
        if found := python_of(page):
            name = page.stem.lower().replace("-", "_")
            (folder / f"page_{name}.py").write_text(as_program(found), encoding="utf-8")
    return folder


def check(*command: str | Path) -> None:
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=CHECK_SECONDS)
    assert ran.returncode == 0, f"the lines are those of the pages:\n{ran.stdout}{ran.stderr}"


def test_the_python_of_the_pages_passes_mypy(programs: Path) -> None:
    # A name may get another type later in a page, as in pyright: its blocks are programs of their own.
    check(BIN / "mypy", "--allow-redefinition-new", "--local-partial-types", programs)


def test_the_python_of_the_pages_passes_pyright(programs: Path) -> None:
    (programs / "pyrightconfig.json").write_text('{"typeCheckingMode": "strict", "pythonVersion": "3.11"}')
    check(BIN / "pyright", "--project", programs, "--pythonpath", sys.executable)
