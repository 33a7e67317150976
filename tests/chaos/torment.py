"""A load on a fleet that is killed meanwhile; then all that it holds is compared with what was acknowledged."""

import asyncio
import os
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Protocol

from nats.aio.client import Client

from .asking import connect
from .fleet import Fleet
from .journal import Journal
from .killer import Killer
from .rest import come_to_rest

SECONDS: Final = float(os.environ.get("HIVEMEM_TEST_CHAOS_SECONDS", "8"))
LOAD_CONNECTIONS: Final = 3
FINDINGS_SHOWN: Final = 40
REST_AND_VERIFICATION_SECONDS: Final = 240

Stopping = Callable[[], bool]
Load = Callable[[Sequence[Client], Stopping], Awaitable[None]]
"""Writes until `stopping` says so, and returns when everything that was sent is acknowledged."""
Verify = Callable[[Client], Awaitable[Sequence[str]]]
"""Answers what is wrong, each time with the name of the thing and its version."""


class Striker(Protocol):
    strikes: Counter[str]
    findings: list[str]

    async def run(self) -> None: ...


Strike = Callable[[Fleet, int, Stopping, Callable[[], int]], Striker]
"""Takes the fleet, the seed, when to stop, and a count of the writes that were acknowledged so far."""


async def torment(
    fleet: Fleet,
    seed: int,
    journal: Journal,
    load: Load,
    verify: Verify,
    seconds: float = SECONDS,
    strike: Strike = Killer,
) -> None:
    killer = await strike_under_load(fleet, seed, journal, load, seconds, strike)
    client = await connect(fleet.nats_url)
    await come_to_rest(client, fleet)
    findings = [*journal.findings, *killer.findings, *await verify(client)]
    await client.close()
    strikes = ", ".join(f"{name} {count}" for name, count in sorted(killer.strikes.items()))
    summary = f"{journal.summary()}; {strikes}"
    print(summary)  # noqa: T201 - shown with -s, and with what failed
    shown = "\n".join(findings[:FINDINGS_SHOWN])
    assert not findings, f"{len(findings)} findings with HIVEMEM_TEST_SEED={seed} after {summary}:\n{shown}"
    assert journal.acknowledged() > 100, "there was hardly any load"


async def strike_under_load(
    fleet: Fleet, seed: int, journal: Journal, load: Load, seconds: float, strike: Strike
) -> Striker:
    end = time.monotonic() + seconds

    def stopping() -> bool:
        return time.monotonic() > end

    striker = strike(fleet, seed, stopping, journal.acknowledged)
    clients = [await connect(fleet.nats_url) for _ in range(LOAD_CONNECTIONS)]
    try:
        await asyncio.gather(load(clients, stopping), striker.run())
    finally:
        await asyncio.gather(*(client.close() for client in clients))
    return striker
