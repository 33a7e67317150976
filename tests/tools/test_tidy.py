"""Each rule of tidy is reported where it is broken, and nowhere else."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

import tidy

WORKER = "services/stars/hivemem_stars"

Found = Callable[..., list[str]]


@pytest.fixture
def found(tmp_path: Path) -> Found:
    """Write the files and return the findings, as path:line."""

    def find(files: dict[str, str], long_files: dict[str, str] | None = None) -> list[str]:
        for name, text in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        findings = tidy.findings(tmp_path, list(files), long_files or {})
        return sorted(f"{finding.path}:{finding.line}" for finding in findings)

    return find


@pytest.mark.parametrize("name", ["__main__.py", "decisions/forks.py", "endpoints/reads.py", "worker.py", "ports.py"])
def test_a_worker_may_have_the_files_that_all_workers_have(found: Found, name: str) -> None:
    assert found({f"{WORKER}/{name}": ""}) == []


@pytest.mark.parametrize("name", ["service.py", "handlers.py", "reading/events.py"])
def test_a_worker_has_no_other_files(found: Found, name: str) -> None:
    assert found({f"{WORKER}/{name}": ""}) == [f"{WORKER}/{name}:1"]


@pytest.mark.parametrize("name", ["entities.py", "decisions/forks.py", "__init__.py", "ports.py"])
def test_a_topic_of_a_worker_has_the_same_names_inside(found: Found, name: str) -> None:
    assert found({f"{WORKER}/reading/{name}": ""}) == []
    assert found({f"{WORKER}/reading/forks/{name}": ""}) == [f"{WORKER}/reading/forks/{name}:1"]


def test_a_topic_with_a_port_holds_its_adapters(found: Found) -> None:
    adapter = f"{WORKER}/stores/disk/files.py"
    assert found({adapter: "", f"{WORKER}/reading/ports.py": ""}) == [f"{adapter}:1"]
    assert found({adapter: "", f"{WORKER}/stores/ports.py": ""}) == []


def test_a_class_name_leads_to_one_class_of_its_distribution(found: Found) -> None:
    first, second = "shared/sky/hivemem_sky/stars.py", "shared/sky/hivemem_sky/moons.py"
    twice = "class Orbit: ...\n\n\nclass _Kept: ...\n"
    project = {"shared/sky/pyproject.toml": PROJECT}
    assert found({first: twice, second: twice, **project}) == [f"{first}:1"]
    assert found({first: twice, "shared/sea/hivemem_sea/moons.py": twice, **project}) == []


def test_an_app_is_not_held_to_the_files_of_a_worker(found: Found) -> None:
    assert found({"apps/embedded/hivemem_embedded/command.py": ""}) == []


PROJECT = '[project]\nname = "hivemem-stars"\nversion = "0.1.0"\n'
DECLARED = f'{PROJECT}[project.entry-points."hivemem.workers"]\nstars = "hivemem_stars.worker:WORKER"\n'
CATALOGUE = "contracts/hivemem_contracts/catalog.py"
LISTED = 'NAMES = (\n    "stars",\n)\n'
SERVED = "services:\n  stars: {}\n"


@pytest.mark.parametrize(
    ("project", "catalogue", "compose", "lacking"),
    [
        (DECLARED, LISTED, SERVED, []),
        (PROJECT, LISTED, SERVED, ["services/stars/pyproject.toml:1"]),
        (DECLARED, LISTED.replace("stars", "moons"), SERVED, [f"{CATALOGUE}:1"]),
        (DECLARED, LISTED, SERVED.replace("stars", "moons"), ["docker-compose.yml:1"]),
    ],
    ids=["whole", "entry point", "catalogue", "compose"],
)
def test_a_worker_is_declared_in_each_place(
    found: Found, project: str, catalogue: str, compose: str, lacking: list[str]
) -> None:
    files = {"services/stars/pyproject.toml": project, CATALOGUE: catalogue, "docker-compose.yml": compose}
    assert found(files) == lacking


@pytest.mark.parametrize("name", ["utils.py", "string_utils.py", "common/names.py", "base.py", "lease_manager.py"])
def test_a_module_is_named_by_its_responsibility(found: Found, name: str) -> None:
    assert found({f"contracts/hivemem_contracts/{name}": ""}) == [f"contracts/hivemem_contracts/{name}:1"]


def test_a_word_that_only_contains_a_bucket_is_no_bucket(found: Found) -> None:
    assert found({"contracts/hivemem_contracts/database.py": "", "contracts/hivemem_contracts/commoners.py": ""}) == []


@pytest.mark.parametrize(
    "line",
    [
        "https://" + "pypi" + ".org/simple",
        "deb http://deb." + "debian" + ".org/debian trixie main",
        'DATA = "' + "/home" + '/alice/data"',
        "# TO" + "DO",
        "# see issue" + " 12",
    ],
)
def test_text_that_no_file_may_hold_is_found_on_its_line(found: Found, line: str) -> None:
    assert found({"docs/start.md": f"# Start\n{line}\n"}) == ["docs/start.md:2"]


@pytest.mark.parametrize("line", ["https://example.org/home/alice", "~/root/x", "tests/work/one.py", "$(HOME)/work/x"])
def test_an_address_or_a_relative_path_is_no_path_of_one_machine(found: Found, line: str) -> None:
    assert found({"docs/start.md": f"{line}\n"}) == []


@pytest.mark.parametrize("line", ["raise NotImplemented" + "Error", "# " + "-----", "#" + "=" * 20])
def test_code_that_is_not_finished_or_needs_banners_is_found(found: Found, line: str) -> None:
    assert found({"tools/cut.py": f"{line}\n"}) == ["tools/cut.py:1"]
    assert found({"docs/cut.md": f"{line}\n"}) == []


@pytest.mark.parametrize(
    "line",
    [
        "import hivemem_runtime.ledger.sqlite",
        "from hivemem_runtime.ledger import mongo",
        "from hivemem_runtime.ledger.sqlite.adapter import Anything",
    ],
)
def test_only_the_wiring_of_a_worker_chooses_a_ledger(found: Found, line: str) -> None:
    files = {f"{WORKER}/{name}": f"{line}\n" for name in ("worker.py", "endpoints.py", "decisions/worker.py")}
    assert found(files) == [f"{WORKER}/decisions/worker.py:1", f"{WORKER}/endpoints.py:1"]


def test_the_port_of_the_ledger_is_for_all(found: Found) -> None:
    assert found({f"{WORKER}/endpoints.py": "from hivemem_runtime.ledger.port import Anything\n"}) == []


def test_a_test_does_not_sleep(found: Found) -> None:
    body = "import asyncio, time\ntime.sleep(1)\nasyncio.sleep(delay)\nasyncio.sleep(0)\n"
    assert found({"tests/test_it.py": body, "tests/pace.py": body}) == ["tests/test_it.py:2", "tests/test_it.py:3"]


def test_a_long_file_needs_a_reason(found: Found) -> None:
    long = "x = 1\n" * 401
    assert found({"tools/long.py": long}) == ["tools/long.py:401"]
    assert found({"tools/long.py": long}, {"tools/long.py": "a table"}) == []
    assert found({"docs/long.md": long}) == []
    generated = '"""Methods, generated from the contracts by `make docs`."""\n'
    assert found({"tools/long.py": generated + long}) == []


def test_a_reason_goes_when_its_file_is_long_no_more(found: Found) -> None:
    assert found({"tools/long.py": "x = 1\n"}, {"tools/long.py": "a table"}) == ["pyproject.toml:1"]


def test_a_package_of_a_distribution_says_that_it_is_typed(found: Found) -> None:
    files = {"contracts/pyproject.toml": "", "contracts/names/__init__.py": "", "contracts/names/inner/__init__.py": ""}
    assert found(files) == ["contracts/names/py.typed:1"]
    assert found(files | {"contracts/names/py.typed": ""}) == []


def test_a_file_that_is_not_text_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "logo.png").write_bytes(b"\x89PNG\xff")
    assert list(tidy.findings(tmp_path, ["logo.png"], {})) == []


def test_new_files_are_looked_at_and_ignored_ones_are_not(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "--quiet", tmp_path], check=True)
    (tmp_path / ".gitignore").write_text("kept/\n")
    (tmp_path / "new.py").touch()
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "data.py").touch()
    assert sorted(tidy.committed_files(tmp_path)) == [".gitignore", "new.py"]
