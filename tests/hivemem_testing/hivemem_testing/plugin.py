"""Servers as fixtures: each is started when the first test asks for it, and the run reports the origin of each.

A long run also reports how long each folder took. Side by side, each process of pytest-xdist starts servers of its own,
and hands its part of the report to the first process."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from hivemem_testing.contract import Server, describe
from hivemem_testing.servers import shared_minio, shared_mongo, shared_nats, shared_qdrant, shared_seaweedfs
from hivemem_testing.stores import left_out

LINES = pytest.StashKey[list[str]]()
LONG_RUN_SECONDS = 60.0
REPORTED: Final = "servers"
"""The key of the lines that a process hands over."""


def pytest_configure(config: pytest.Config) -> None:
    config.stash[LINES] = []


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    lines = reported(config)
    if lines:
        terminalreporter.section("servers")
        for line in lines:
            terminalreporter.write_line(line)
    taken = seconds_by_folder(terminalreporter)
    if sum(taken.values()) > LONG_RUN_SECONDS:
        terminalreporter.section("seconds by folder")
        for folder, seconds in taken.items():
            terminalreporter.write_line(f"{seconds:7.1f} {folder}")


def pytest_sessionfinish(session: pytest.Session) -> None:
    output: dict[str, Any] | None = getattr(session.config, "workeroutput", None)
    if output is not None:
        output[REPORTED] = reported(session.config)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take over the lines of a process that has ended; one that crashed has none."""
    lines: list[str] = node.config.stash[LINES]
    lines += [line for line in getattr(node, "workeroutput", {}).get(REPORTED, ()) if line not in lines]


def reported(config: pytest.Config) -> list[str]:
    """Return a line for each server, and one for the tests that one store was enough for."""
    return [*config.stash[LINES], *filter(None, [left_out(config)])]


def seconds_by_folder(reporter: pytest.TerminalReporter) -> dict[str, float]:
    """Return the seconds that the tests of each folder took, with their fixtures, longest first."""
    taken: dict[str, float] = {}
    for reports in reporter.stats.values():
        for report in reports:
            if isinstance(report, pytest.TestReport):
                folder = report.location[0].rpartition("/")[0]
                taken[folder] = taken.get(folder, 0.0) + report.duration
    return dict(sorted(taken.items(), key=lambda one: -one[1]))


@pytest.fixture(scope="session")
def nats_server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    yield from _served("nats-server", shared_nats, request, tmp_path_factory)


@pytest.fixture(scope="session")
def mongo_server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    yield from _served("mongod", shared_mongo, request, tmp_path_factory)


@pytest.fixture(scope="session")
def qdrant_server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    yield from _served("qdrant", shared_qdrant, request, tmp_path_factory)


@pytest.fixture(scope="session")
def minio_server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    yield from _served("minio", shared_minio, request, tmp_path_factory)


@pytest.fixture(scope="session")
def seaweedfs_server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    yield from _served("seaweedfs", shared_seaweedfs, request, tmp_path_factory)


def _served(
    directory: str,
    shared: Callable[[Path], Server],
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Server]:
    lines = request.config.stash[LINES]
    try:
        server = shared(tmp_path_factory.mktemp(directory))
    except Exception as error:
        lines.append(f"not to be had: {str(error).splitlines()[0]}")
        raise
    lines.append(describe(server))
    try:
        yield server
    finally:
        server.stop()
