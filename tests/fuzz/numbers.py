"""How many cases there are, and how they are shared out: few where one costs milliseconds, most where it costs none."""

import os
from typing import Final

CASES: Final = int(os.environ.get("HIVEMEM_TEST_FUZZ_CASES", "100000"))
SQLITE_SHARE: Final = 0.38
MONGO_SHARE: Final = 0.04
"""These two go over the bus."""

CODEC_SHARE: Final = (1 - SQLITE_SHARE - MONGO_SHARE) / 8
"""Of each of the tests that stay in this process."""
