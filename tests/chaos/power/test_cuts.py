"""After a power cut, or on a bad disk, the feed has each version of the ledger once, and no reader skips a gap without
a `FeedError`."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from _pytest.mark.structures import ParameterSet

from ..fleet import running_fleet
from ..seeds import FOUND, SEED, SOAK
from .cutting import run
from .kinds import ONE_OF_EACH, Plan, plans

CUTS = int(os.environ.get("HIVEMEM_TEST_CHAOS_CUTS", "20"))
SETTINGS = {"HIVEMEM_STREAMS__CHANGES_MAX_BYTES": str(24 * 1024 * 1024)}
"""Settings with which the feed never drops old messages, and a block file is 4 MiB instead of 8."""
START_AND_END_SECONDS = 120
CUT_SECONDS = 60


def parameters() -> Iterator[ParameterSet]:
    known = [plan for seed in FOUND for plan in plans(ONE_OF_EACH, seed)] if SOAK else []
    for plan in [*plans(CUTS, SEED), *known]:
        seconds = START_AND_END_SECONDS + CUT_SECONDS * len(plan.kinds)
        name = plan.name if plan.seed == SEED else f"{plan.name}-{plan.seed}"
        yield pytest.param(plan, id=name, marks=pytest.mark.timeout(seconds))


@pytest.mark.slow
@pytest.mark.usefixtures("forgotten_sockets")
# The NATS client leaks a socket when the server dies during a reconnect.
@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
@pytest.mark.parametrize("plan", list(parameters()))
async def test_the_feed_is_whole_after_every_cut(plan: Plan, tmp_path: Path) -> None:
    with running_fleet(tmp_path, "embedded", [], SETTINGS) as fleet:
        await run(fleet, tmp_path, plan)
