"""The programs in examples/ run to their end against a real fleet."""

import ast
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from .fleet import Fleet
from .markdown import ROOT, SHELL, blocks, name_of
from .playing import Player

EXAMPLES: Final = sorted((ROOT / "examples").glob("*.py"))
WITH_A_README: Final = sorted((ROOT / "examples").glob("*/README.md"))
EXAMPLE_SECONDS: Final = 120.0


def run(example: Path, fleet: Fleet, directory: Path) -> str:
    ran = subprocess.run(
        [sys.executable, "-W", "error", str(example)],
        cwd=directory,
        env=fleet.environment(),
        capture_output=True,
        text=True,
        timeout=EXAMPLE_SECONDS,
    )
    assert (ran.returncode, ran.stderr) == (0, ""), f"{ran.stdout}{ran.stderr}"
    return ran.stdout


@pytest.mark.parametrize("example", EXAMPLES, ids=name_of)
def test_an_example_runs_to_its_end(example: Path, fleet: Fleet, tmp_path: Path) -> None:
    assert run(example, fleet, tmp_path).splitlines()[-1].startswith("done")


@pytest.mark.parametrize("page", WITH_A_README, ids=name_of)
def test_an_example_and_what_it_stored_look_as_its_readme_says(page: Path, fleet: Fleet, tmp_path: Path) -> None:
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    with Player(fleet, tmp_path) as player:
        assert [player.play(block) for block in blocks(page) if block.language == SHELL]


def test_a_reader_that_is_started_again_goes_on_where_it_stopped(fleet: Fleet, tmp_path: Path) -> None:
    follow = ROOT / "examples" / "follow.py"
    first, second = (run(follow, fleet, tmp_path).splitlines() for _ in range(2))
    assert first[0] != second[0]
    assert not set(first[1:-1]) & set(second[1:-1])
    assert sum(": event " in line for line in second) == 3


def test_the_plain_example_needs_nats_and_nothing_else() -> None:
    tree = ast.parse((ROOT / "examples" / "plain_nats.py").read_text(encoding="utf-8"))
    names = {
        name.partition(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in ([node.module or ""] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names])
    }
    assert names - sys.stdlib_module_names == {"nats"}
