"""The lock files name a version for every declared dependency, and nothing of the machine that wrote them."""

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
PROJECTS = [
    *ROOT.glob("contracts/pyproject.toml"),
    *ROOT.glob("[as]*/*/pyproject.toml"),
    *ROOT.glob("tests/*/pyproject.toml"),
]
PIN = re.compile(r"^([a-z0-9-]+)==(\S+)")


def pins(lock: str) -> dict[str, set[str]]:
    """Return the versions of each package; there are several if they differ by Python."""
    found: dict[str, set[str]] = {}
    for line in (ROOT / lock).read_text(encoding="utf-8").splitlines():
        if match := PIN.match(line):
            found.setdefault(match[1], set()).add(match[2])
    return found


def hashes(lock: str) -> dict[str, set[str]]:
    """Return the hashes of each version, by its line without the hashes."""
    found: dict[str, set[str]] = {}
    version = ""
    for line in (ROOT / lock).read_text(encoding="utf-8").splitlines():
        if PIN.match(line):
            version = line.removesuffix(" \\")
            found[version] = set()
        elif line.startswith("    --hash="):
            found[version].add(line.removesuffix(" \\"))
    return found


def declared() -> list[Requirement]:
    lines = (ROOT / "requirements.in").read_text(encoding="utf-8").splitlines()
    found = [line for line in lines if line and not line.startswith("#")]
    for project in PROJECTS:
        table = tomllib.loads(project.read_text(encoding="utf-8"))
        found += table["build-system"]["requires"] + table["project"]["dependencies"]
        for extra in table["project"].get("optional-dependencies", {}).values():
            found += extra
    return [Requirement(line) for line in found]


@pytest.mark.parametrize("lock", ["requirements.lock", "requirements-bench.lock"])
def test_a_lock_holds_a_fitting_version_of_all_that_is_declared(lock: str) -> None:
    ours = {tomllib.loads(project.read_text(encoding="utf-8"))["project"]["name"] for project in PROJECTS}
    locked = pins(lock)
    for requirement in declared():
        if requirement.name in ours:
            continue
        versions = locked.get(canonicalize_name(requirement.name))
        assert versions, f"{requirement.name} is not in {lock}: make lock"
        assert all(requirement.specifier.contains(version) for version in versions), f"{requirement}: make lock"


@pytest.mark.parametrize("lock", ["requirements.lock", "requirements-up.lock", "requirements-bench.lock"])
def test_every_line_of_a_lock_is_a_version_or_its_hash(lock: str) -> None:
    for line in (ROOT / lock).read_text(encoding="utf-8").splitlines():
        assert PIN.match(line) or line.startswith(("    --hash=sha256:", "    #", "#")) or not line, line


def test_up_installs_the_versions_that_the_tests_ran_on() -> None:
    tested = hashes("requirements.lock")
    # Some carry a marker in one lock and not in the other, as something else needs them everywhere.
    tested_versions = {version.partition(" ;")[0]: found for version, found in tested.items()}
    for version, found in hashes("requirements-up.lock").items():
        assert tested_versions[version.partition(" ;")[0]] == found, f"{version}: make lock"


def test_the_benchmarks_run_on_the_versions_that_the_tests_ran_on() -> None:
    tested = pins("requirements.lock")
    assert {name: versions for name, versions in pins("requirements-bench.lock").items() if name in tested} == tested
