"""A load on a fleet under strikes; then the content of the fleet is compared with its acknowledgements."""

import asyncio
import os
import time
from collections.abc import Sequence
from typing import Final

from .asking import connect
from .fleet import Fleet
from .rest import come_to_rest
from .service import Trial
from .strikes.striker import Striker, Target

SECONDS: Final = float(os.environ.get("HIVEMEM_TEST_CHAOS_SECONDS", "4"))
LOAD_CONNECTIONS: Final = 3
LEAST_WRITES: Final = 100
"""A load continues until it has this many writes, and each target was struck, however slow the machine is."""
LONGEST_OVERTIME_SECONDS: Final = 60.0
FINDINGS_SHOWN: Final = 40
REST_AND_VERIFICATION_SECONDS: Final = 240


async def torment(fleet: Fleet, trial: Trial, targets: Sequence[Target], seed: int, seconds: float) -> None:
    striker = await _strike_under_load(fleet, trial, targets, seed, seconds)
    client = await connect(fleet.nats_url)
    await come_to_rest(client, fleet)
    findings = [*trial.journal.findings, *striker.findings, *await trial.verify(client)]
    await client.close()
    summary = f"{trial.journal.summary()}; {striker.summary()}"
    print(summary)  # noqa: T201 - shown with -s, and with what failed
    shown = "\n".join(findings[:FINDINGS_SHOWN])
    assert not findings, f"{len(findings)} findings with HIVEMEM_TEST_SEED={seed} after {summary}:\n{shown}"
    assert trial.journal.acknowledged() > LEAST_WRITES, "there was hardly any load"


async def _strike_under_load(
    fleet: Fleet, trial: Trial, targets: Sequence[Target], seed: int, seconds: float
) -> Striker:
    end = time.monotonic() + seconds

    def stopping() -> bool:
        late = time.monotonic() - end
        enough = trial.journal.acknowledged() > LEAST_WRITES and striker.has_struck_each
        return late > 0 and (enough or late > LONGEST_OVERTIME_SECONDS)

    striker = Striker(targets, seed, stopping, trial.journal.answered)
    clients = [await connect(fleet.nats_url) for _ in range(LOAD_CONNECTIONS)]
    try:
        await asyncio.gather(trial.load(clients, stopping), striker.run())
    finally:
        await asyncio.gather(*(client.close() for client in clients))
    return striker
