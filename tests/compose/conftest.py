"""One fleet for all tests of the compose file; its measurements are printed at the end."""

from collections.abc import Iterator

import pytest

from .available import obstacle
from .project import WORKERS, Project

FIGURES = pytest.StashKey[list[str]]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[FIGURES] = []


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if lines := config.stash[FIGURES]:
        terminalreporter.section("compose")
        for line in lines:
            terminalreporter.write_line(line)


@pytest.fixture(scope="session")
def figures(request: pytest.FixtureRequest) -> list[str]:
    return request.config.stash[FIGURES]


@pytest.fixture(scope="session")
def project(request: pytest.FixtureRequest, figures: list[str]) -> Iterator[Project]:
    """The healthy fleet with three replicas of each worker; it is removed afterwards, with its volumes."""
    if reason := obstacle():
        pytest.fail(reason, pytrace=False)
    project = Project()
    try:
        figures.append(f"images built in {project.build():.1f} s")
        figures.append(f"everything up and healthy in {project.up(**dict.fromkeys(WORKERS, 3)):.1f} s")
        yield project
        if request.session.testsfailed:
            print(project.logs())  # noqa: T201  # what the containers said belongs to the failure
    finally:
        project.down(volumes=True)
