"""A fixture that starts `hivemem up` for a test and ends it with the test."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from .up import Up

StartUp = Callable[..., Up]


@pytest.fixture
def start_up(tmp_path: Path) -> Iterator[StartUp]:
    started: list[Up] = []

    def start(
        *options: str,
        data: Path = tmp_path / "data",
        nats_port: int = 0,
        http_port: int = 0,
        settings: Mapping[str, str] | None = None,
    ) -> Up:
        directory = tmp_path / f"run{len(started)}"
        started.append(Up(directory, data, *options, nats_port=nats_port, http_port=http_port, settings=settings))
        return started[-1]

    yield start
    for up in started:
        up.kill()
