"""Each help ends with examples; `test_real_fleet.py` runs them."""

import re
from collections.abc import Iterator
from typing import Any, Final

import pytest
import typer
from typer.testing import CliRunner

from hivemem.cli.app import app
from hivemem.cli.examples import EXAMPLES

from .commands import WIDE

COLUMNS: Final = 78


def commands() -> Iterator[tuple[str, Any]]:
    """Return every command and group below the root, by its path."""
    root: Any = typer.main.get_command(app)
    context = root.make_context("hivemem", [], resilient_parsing=True)
    for name in root.list_commands(context):
        _, command, _ = root.resolve_command(context, [name])
        yield name, command
        yield from ((f"{name} {inner}", each) for inner, each in getattr(command, "commands", {}).items())


def test_each_command_has_examples_that_fit_a_terminal() -> None:
    found = dict(commands())

    assert found.keys() - EXAMPLES.keys() == set(), "add examples to hivemem.cli.examples"
    assert EXAMPLES.keys() - found.keys() == set()
    for path, examples in EXAMPLES.items():
        for example in examples:
            assert len(f"hivemem {example}") <= COLUMNS, example
            assert re.match(rf"(--json |--tenant other )?{path}\b", example), example


def test_help_shows_an_example_unbroken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(WIDE, "COLUMNS", "80")

    shown = CliRunner(env=WIDE).invoke(app, ["memory", "diff", "--help"]).stdout

    assert f"hivemem {EXAMPLES['memory diff'][0]}" in [line.strip() for line in shown.splitlines()]
