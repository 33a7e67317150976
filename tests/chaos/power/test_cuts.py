"""After a power cut, or on a bad disk, the feed tells all that the ledger has, each version once, and no reader is led
over a hole in silence."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from _pytest.mark.structures import ParameterSet

from ..conftest import SEED
from ..fleet import running_fleet
from .cutting import run
from .kinds import Plan, plans

CUTS = int(os.environ.get("HIVEMEM_TEST_CHAOS_CUTS", "30"))
SETTINGS = {"HIVEMEM_STREAMS__CHANGES_MAX_BYTES": str(24 * 1024 * 1024)}
"""Nothing of the feed is cut off, and a block file is 4 MiB instead of 8."""
START_AND_END_SECONDS = 120
CUT_SECONDS = 60


def parameters() -> Iterator[ParameterSet]:
    for plan in plans(CUTS, SEED):
        seconds = START_AND_END_SECONDS + CUT_SECONDS * len(plan.kinds)
        yield pytest.param(plan, id=plan.name, marks=pytest.mark.timeout(seconds))


@pytest.mark.slow
@pytest.mark.usefixtures("forgotten_sockets")
# The NATS client forgets a socket when the server dies in the middle of its connecting again.
@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
@pytest.mark.parametrize("plan", list(parameters()))
async def test_the_feed_is_whole_after_every_cut(plan: Plan, tmp_path: Path, seed: int) -> None:
    with running_fleet(tmp_path, "embedded", [], SETTINGS) as fleet:
        await run(fleet, tmp_path, plan, seed)
