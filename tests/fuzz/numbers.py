"""The number of cases per test: few for slow tests over the bus, most for fast ones in this process."""

import os
from typing import Final

CASES: Final = int(os.environ.get("HIVEMEM_TEST_FUZZ_CASES", "100000"))
SQLITE_SHARE: Final = 0.38
MONGO_SHARE: Final = 0.04
"""The shares of the two tests that use the bus."""

CODEC_SHARE: Final = (1 - SQLITE_SHARE - MONGO_SHARE) / 8
"""The share of each test that stays in this process."""
