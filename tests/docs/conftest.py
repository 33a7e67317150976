"""One fleet for the tests of all pages."""

from collections.abc import Iterator

import pytest

from .fleet import Fleet, running_fleet


@pytest.fixture(scope="session")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    with running_fleet(tmp_path_factory.mktemp("fleet")) as fleet:
        yield fleet
