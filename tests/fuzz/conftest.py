"""The seed of a run: shown with every test that failed, and given to have the same cases again."""

import pytest

from ..chaos.seeds import SEED


def pytest_report_header() -> str:
    return f"fuzz: HIVEMEM_TEST_SEED={SEED}"


@pytest.fixture
def seed() -> int:
    print(f"HIVEMEM_TEST_SEED={SEED}")  # noqa: T201 - shown with what failed
    return SEED
