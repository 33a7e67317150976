"""The seed of a run, shown in the header of its report."""

import gc
from collections.abc import Iterator

import pytest

from .seeds import SEED


def pytest_report_header() -> str:
    return f"chaos: HIVEMEM_TEST_SEED={SEED}"


@pytest.fixture
def forgotten_sockets() -> Iterator[None]:
    """They are collected where the test's own filter of warnings still holds."""
    yield
    gc.collect()
