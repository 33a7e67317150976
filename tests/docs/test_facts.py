"""Settings, options, statuses, errors and files on the pages match the code."""

import dataclasses
import re
from pathlib import Path
from typing import Any, Final, get_args

import pytest
import typer
from pydantic import BaseModel

import command_reference
from hivemem import CallOptions
from hivemem.feed_errors import FeedError
from hivemem.leases import LeaseLost
from hivemem_contracts.errors import ALL_ERRORS, HiveError
from hivemem_contracts.sessions.models import Status
from hivemem_embedded.command import up
from hivemem_runtime.bus.streams import StreamSettings
from hivemem_runtime.program import installed_workers
from hivemem_runtime.settings import PREFIX
from hivemem_sessions.decisions.preconditions import TRANSITIONS

from .markdown import ROOT, broken, codes, links, name_of, pages, rows

OPERATIONS: Final = ROOT / "docs" / "operations.md"
COMPOSE: Final = ROOT / "docs" / "compose.md"
SESSIONS: Final = ROOT / "docs" / "sessions.md"
CLIENT: Final = ROOT / "docs" / "client.md"
FAILING: Final = ROOT / "docs" / "failing.md"

_VARIABLE: Final = re.compile(r"`(?:HIVEMEM|PIP|UV)_")
_FILE: Final = re.compile(r"`((?:[\w.-]+/)+[\w.-]+\.(?:py|md|conf|toml|yml|json|sh|txt))`")


def settings_of(kind: type[BaseModel], prefix: str) -> dict[str, str]:
    """Return each variable with its default, as a page writes it."""
    found: dict[str, str] = {}
    for name, field in kind.model_fields.items():
        if isinstance(field.default, StreamSettings):
            found |= settings_of(StreamSettings, f"{prefix}{name.upper()}__")
        else:
            found[prefix + name.upper()] = f"{field.default}"
    return found


def test_operations_lists_every_setting_with_its_default() -> None:
    told: dict[str, str] = {}
    for variables, defaults, *_ in rows(OPERATIONS, _VARIABLE):
        values = codes(defaults) or [defaults]
        told |= dict(zip(codes(variables), values, strict=True))
    kinds = [worker.settings for worker in installed_workers()]
    assert told == {name: default for kind in kinds for name, default in settings_of(kind, PREFIX).items()}


def test_operations_lists_every_option_of_up_with_its_default() -> None:
    told = {
        codes(option)[0].split()[0]: (codes(default) or [default])[0]
        for option, default, *_ in rows(OPERATIONS, re.compile("`--"))
    }
    app = typer.Typer()
    app.command()(up)
    command: Any = typer.main.get_command(app)
    own = [parameter for parameter in command.params if parameter.name not in ("install_completion", "show_completion")]
    assert told == {parameter.opts[0]: f"{parameter.default}" for parameter in own}


def test_the_compose_page_lists_every_variable_of_the_compose_file() -> None:
    told = {name for variables, *_ in rows(COMPOSE, _VARIABLE) for name in codes(variables)}
    text = (ROOT / "docker-compose.yml").read_text(encoding="utf-8")
    read = set(re.findall(r"\$\{(\w+)", text)) | set(re.findall(r"^  ((?:PIP|UV)_\w+):$", text, re.MULTILINE))
    assert told == read


def test_the_sessions_page_has_the_table_of_statuses() -> None:
    told = {
        codes(status)[0]: tuple(codes(following)) for status, following, *_ in rows(SESSIONS, re.compile(r"`[a-z]+`$"))
    }
    assert {status: told.get(status) for status in get_args(Status)} == TRANSITIONS


def test_the_page_about_failing_has_every_error() -> None:
    told = {(codes(name)[0], int(code)) for name, code, *_ in rows(FAILING, re.compile(r"`[A-Z]\w+`$"))}
    errors: list[type[HiveError]] = [*ALL_ERRORS, LeaseLost, *FeedError.__subclasses__()]
    assert told == {(error.__name__, error.code) for error in errors}


def test_the_client_page_has_the_options_of_a_call_with_their_defaults() -> None:
    told = {codes(name)[0]: default for name, default, *_ in rows(CLIENT, re.compile(r"`[a-z_]+`$"))}
    fields = dataclasses.fields(CallOptions)
    assert list(told) == [field.name for field in fields]
    for field in fields:
        assert field.default is None or told[field.name] == f"{field.default}"


def test_the_reference_of_the_command_is_up_to_date(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command_reference.main(["--check"]) == 0
    stale = tmp_path / "cli.md"
    stale.write_text("# More\n\n<!-- generated: commands -->\n\n<!-- end of commands -->\n", encoding="utf-8")
    monkeypatch.setattr(command_reference, "PAGE", stale)
    assert command_reference.main(["--check"]) == 1
    assert command_reference.main([]) == 0
    assert command_reference.main(["--check"]) == 0
    assert capsys.readouterr().out == "out of date: cli.md; write it again with `make docs`\nwritten: cli.md\n"


def test_links_lead_somewhere() -> None:
    wrong = {
        f"{name_of(page)}:{line}": reason
        for page in pages()
        for line, target in links(page)
        if (reason := broken(page, target))
    }
    assert wrong == {}


def test_files_that_are_named_exist() -> None:
    wrong = {
        f"{name_of(page)}: {path}"
        for page in pages()
        for path in _FILE.findall(page.read_text(encoding="utf-8"))
        if not any((folder / path).exists() for folder in (ROOT, page.parent))
    }
    assert wrong == set()
