"""The seed of a run is shown with every failed test; `HIVEMEM_TEST_SEED` repeats its cases."""

import pytest

from ..chaos.seeds import SEED


def pytest_report_header() -> str:
    return f"fuzz: HIVEMEM_TEST_SEED={SEED}"


@pytest.fixture
def seed() -> int:
    print(f"HIVEMEM_TEST_SEED={SEED}")  # noqa: T201 - shown with what failed
    return SEED
