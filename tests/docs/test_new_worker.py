"""A worker added by following docs/new-worker.md is found, served, called and reacts, with no other edits."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

import tidy

from .fleet import BIN, Fleet, running_fleet
from .markdown import ROOT, Block, blocks

PAGE: Final = ROOT / "docs" / "new-worker.md"
COPIED: Final = {"apps", "contracts", "docs", "services", "shared", "tools", "docker-compose.yml", "pyproject.toml"}
RUN_SECONDS: Final = 300.0

_PLACE: Final = re.compile(r"# (?P<path>[\w./-]+\.\w+|[\w./-]+/py\.typed)(?:, below: (?P<line>.+))?")

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


@dataclass(frozen=True)
class Checkout:
    """A copy of the repository to which the page was applied, and the environment that runs it."""

    root: Path
    environment: Mapping[str, str]

    def run(self, *command: str, code: int = 0) -> str:
        """Run a Python program of the copy, and return what it prints."""
        done = subprocess.run(
            [sys.executable, *command],
            cwd=self.root,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=RUN_SECONDS,
            check=False,
        )
        assert done.returncode == code, f"{command}: {done.stdout}{done.stderr}"
        return done.stdout


def copy_of_the_repository(root: Path) -> None:
    for name in tidy.committed_files(ROOT):
        if name.partition("/")[0] in COPIED:
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, root / name)


def follow(block: Block, root: Path) -> str | None:
    """Write the block to the file that its first line names; return None if it names no file."""
    first, _, text = f"{block.text}\n".partition("\n")
    place = _PLACE.fullmatch(first)
    if place is None:
        return None
    file = root / place["path"]
    file.parent.mkdir(parents=True, exist_ok=True)
    if place["line"] is not None:
        before = file.read_text(encoding="utf-8")
        (line,) = re.findall(rf"(?m)^ *{re.escape(place['line'])}\n", before)
        text = before.replace(line, line + text, 1)
    file.write_text(text, encoding="utf-8")
    return place["path"]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[Checkout, list[str]]:
    """The copy after all blocks of the page, with the new distribution installed, and the paths that the page names."""
    root = tmp_path_factory.mktemp("new-worker") / "hivemem"
    copy_of_the_repository(root)
    paths = [path for block in blocks(PAGE) if (path := follow(block, root))]
    installed = root.parent / "installed"
    folders = [str(project.parent) for project in root.glob("*/pyproject.toml")]
    folders += [str(project.parent) for project in root.glob("*/*/pyproject.toml")]
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("HIVEMEM_", "COV", "PYTHON"))}
    checkout = Checkout(root, {**kept, "PYTHONPATH": os.pathsep.join([str(installed), *folders])})
    install = ("-m", "uv", "pip", "install", "--quiet", "--offline", "--no-deps", "--no-build-isolation")
    checkout.run(*install, "--target", str(installed), "-e", "services/notes")
    subprocess.run(["git", "init", "--quiet", root], check=True)
    return checkout, paths


@pytest.fixture(scope="module")
def checkout(written: tuple[Checkout, list[str]]) -> Checkout:
    """The copy after `make docs`."""
    done, _ = written
    missing = done.run("tools/declarations.py", "--check", code=1)
    assert "shared/client/hivemem/attributes.py: + self.notes = NotesOperations(hive)\n" in missing
    assert "pyproject.toml: out of date; write it again with `make docs`\n" in missing
    done.run("tools/declarations.py")
    done.run("-m", "hivemem_contracts", "docs")
    done.run("tools/command_reference.py")
    return done


@pytest.fixture(scope="module")
def fleet(checkout: Checkout, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    with running_fleet(tmp_path_factory.mktemp("fleet"), checkout.environment) as fleet:
        yield fleet


def house_findings(root: Path) -> set[str]:
    settings = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    long_files = settings["tool"]["tidy"]["long_files"]
    return {str(finding) for finding in tidy.findings(root, tidy.committed_files(root), long_files)}


def test_the_page_writes_contracts_a_folder_and_a_line_of_compose(written: tuple[Checkout, list[str]]) -> None:
    _, paths = written
    places = {re.sub(r"/notes/.*|_notes/.*", "", path) for path in paths}
    assert places == {
        "contracts/hivemem_contracts",
        "contracts/hivemem_contracts/catalog.py",
        "docker-compose.yml",
        "services",
        "use_notes.py",
    }


def test_nothing_else_is_missing(checkout: Checkout) -> None:
    checkout.run("tools/declarations.py", "--check")
    checkout.run("-m", "hivemem_contracts", "--check", "docs")
    checkout.run("tools/command_reference.py", "--check")
    checkout.run("-m", "ruff", "check", "contracts", "services", "shared", "--no-cache")
    checkout.run("-m", "ruff", "format", "--check", "contracts", "services", "shared", "--no-cache")
    checkout.run("-c", "import sys; from importlinter.cli import lint_imports; sys.exit(lint_imports(no_logo=True))")
    assert house_findings(checkout.root) <= house_findings(ROOT)


def test_the_client_knows_its_types(checkout: Checkout) -> None:
    checkout.run("-m", "mypy", "use_notes.py", "services/notes", "contracts/hivemem_contracts/notes")
    wrong = checkout.root / "wrong.py"
    wrong.write_text(
        "import hivemem\n\n\nasync def wrong(hive: hivemem.Hive) -> None:\n    await hive.notes.write(text=1)\n"
    )
    assert "[call-arg]" in checkout.run("-m", "mypy", "wrong.py", code=1)


def test_it_is_served_called_and_reacts(checkout: Checkout, fleet: Fleet) -> None:
    printed = next(block.text for block in blocks(PAGE) if block.language == "text")
    assert checkout.run("use_notes.py", fleet.url) == f"{printed}\n"


def test_the_command_and_the_doctor_know_it(checkout: Checkout, fleet: Fleet) -> None:
    command = (str(BIN / "hivemem"), "--url", fleet.url)
    checkout.run(*command, "notes", "write", "--session-id", "s1", "--text", "milk")
    assert "milk" in checkout.run(*command, "notes", "read", "--session-id", "s1")
    assert "service notes" in checkout.run(*command, "doctor")
