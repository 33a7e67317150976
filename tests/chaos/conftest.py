"""The seed of a run is shown in the header of its report."""

import gc
from collections.abc import Iterator

import pytest

from .seeds import SEED


def pytest_report_header() -> str:
    return f"chaos: HIVEMEM_TEST_SEED={SEED}"


@pytest.fixture
def forgotten_sockets() -> Iterator[None]:
    """Collect the sockets while the test's own warning filter still applies."""
    yield
    gc.collect()
