"""Servers as fixtures: each is started when the first test asks for it, and the run reports the origin of each."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hivemem_testing.contract import Server, describe
from hivemem_testing.servers import shared_minio, shared_mongo, shared_nats, shared_qdrant, shared_seaweedfs
from hivemem_testing.stores import left_out

LINES = pytest.StashKey[list[str]]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[LINES] = []


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    lines = [*config.stash[LINES], *filter(None, [left_out(config)])]
    if lines:
        terminalreporter.section("servers")
        for line in lines:
            terminalreporter.write_line(line)


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
