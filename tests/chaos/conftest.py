"""The seed of a run: shown with every test that failed, and given to have the same strikes again."""

import gc
from collections.abc import Iterator

import pytest

from .seeds import SEED, SEEDS


def pytest_report_header() -> str:
    return f"chaos: HIVEMEM_TEST_SEED={SEED}"


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "seed" in metafunc.fixturenames and len(SEEDS) > 1:
        metafunc.parametrize("seed", SEEDS)


@pytest.fixture
def seed() -> int:
    print(f"HIVEMEM_TEST_SEED={SEED}")  # noqa: T201 - shown with what failed
    return SEED


@pytest.fixture
def forgotten_sockets() -> Iterator[None]:
    """They are collected where the test's own filter of warnings still holds."""
    yield
    gc.collect()
