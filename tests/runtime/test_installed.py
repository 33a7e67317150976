"""Workers are found by their entry points, and one that cannot be loaded is named with the reason."""

from importlib.metadata import EntryPoint, version
from types import SimpleNamespace
from typing import Any

import pytest

from hivemem_contracts.catalog import SERVICES
from hivemem_runtime import distribution
from hivemem_runtime.distribution import GROUP, version_of
from hivemem_runtime.program import WorkerNotLoaded, installed_workers


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The installed entry points, which a test fills."""
    points: list[Any] = []

    def entry_points(group: str) -> list[Any]:
        assert group == GROUP
        return points

    monkeypatch.setattr(distribution, "entry_points", entry_points)
    return points


def test_every_service_of_the_catalogue_has_a_worker() -> None:
    assert {kind.contract for kind in installed_workers()} == set(SERVICES)


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("stars", "no_such_module:WORKER", "No module named 'no_such_module'"),
        ("stars", "hivemem_sessions.worker:NO_WORKER", "has no attribute 'NO_WORKER'"),
        ("stars", "hivemem_sessions.worker:build", "is no WorkerKind"),
        ("stars", "hivemem_sessions.worker:WORKER", "it serves sessions"),
    ],
)
def test_a_worker_that_cannot_be_loaded_is_named(installed: list[Any], name: str, value: str, reason: str) -> None:
    installed.append(EntryPoint(name, value, GROUP))
    with pytest.raises(WorkerNotLoaded, match=f"^the worker {name} cannot be loaded: .*{reason}"):
        installed_workers()


def test_the_version_of_a_service_is_that_of_the_distribution_that_serves_it(installed: list[Any]) -> None:
    installed.append(SimpleNamespace(name="stars", dist=SimpleNamespace(version="7.8.9")))
    assert version_of("stars") == "7.8.9"
    assert version_of("moons") == version("hivemem-runtime")
