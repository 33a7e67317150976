"""The seed of a run: shown with every test that failed, and given to have the same strikes again."""

import gc
import os
import secrets
from collections.abc import Iterator

import pytest

SEED = int(os.environ.get("HIVEMEM_TEST_SEED") or secrets.randbits(32))


def pytest_report_header() -> str:
    return f"chaos: HIVEMEM_TEST_SEED={SEED}"


@pytest.fixture
def seed() -> int:
    print(f"HIVEMEM_TEST_SEED={SEED}")  # noqa: T201 - shown with what failed
    return SEED


@pytest.fixture
def forgotten_sockets() -> Iterator[None]:
    """They are collected where the test's own filter of warnings still holds."""
    yield
    gc.collect()
