"""Each distribution declares everything it imports, instead of relying on packages that happen to be installed."""

import ast
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
PROJECTS = sorted([*ROOT.glob("contracts/pyproject.toml"), *ROOT.glob("[as]*/*/pyproject.toml")])


def imported(package: Path) -> Iterator[tuple[str, str]]:
    """Yield each top-level name that the package imports, with its place."""
    for path in package.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                names = [name.name for name in node.names]
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                names = [node.module or ""]
            else:
                continue
            for name in names:
                yield name.partition(".")[0], f"{path.relative_to(ROOT)}:{node.lineno}"


def owners() -> dict[str, set[str]]:
    """Return the distributions that provide a top-level name. Workspace distributions are links, without a list of
    files."""
    found: dict[str, set[str]] = {}
    for name, distributions in packages_distributions().items():
        found[name] = {canonicalize_name(distribution) for distribution in distributions}
    # Pydantic pins one version of its core, and documents the core's classes as its own.
    found["pydantic_core"].add("pydantic")
    for project in PROJECTS:
        table = tomllib.loads(project.read_text(encoding="utf-8"))
        found[table["tool"]["uv"]["build-backend"]["module-name"]] = {table["project"]["name"]}
    return found


def declared(project: Path) -> set[str]:
    table = tomllib.loads(project.read_text(encoding="utf-8"))["project"]
    lines: list[str] = [*table["dependencies"]]
    for extra in table.get("optional-dependencies", {}).values():
        lines += extra
    return {canonicalize_name(Requirement(line).name) for line in [*lines, table["name"]]}


@pytest.mark.parametrize("project", PROJECTS, ids=lambda project: str(project.parent.relative_to(ROOT)))
def test_a_distribution_declares_what_it_imports(project: Path) -> None:
    known = owners()
    may = declared(project)
    (package,) = (marker.parent for marker in project.parent.glob("*/py.typed"))
    foreign = {
        where: name
        for name, where in imported(package)
        if name not in sys.stdlib_module_names and not may & known.get(name, set())
    }
    assert foreign == {}
