"""The seeds of a run. Each failure names its seed, and `HIVEMEM_TEST_SEED` gives the same choices again."""

import os
import secrets
from typing import Final

SEED: Final = int(os.environ.get("HIVEMEM_TEST_SEED") or secrets.randbits(32))
SOAK: Final = os.environ.get("HIVEMEM_TEST_SOAK") == "1"
"""Set by `make soak`: every case runs, with several seeds."""

FOUND: Final = (7, 11, 1_014_523_390)
"""Seeds that found a fault once; they stay."""

NEW_SEEDS: Final = int(os.environ.get("HIVEMEM_TEST_CHAOS_SEEDS", "1"))
SEEDS: Final = tuple(SEED + number for number in range(NEW_SEEDS))
