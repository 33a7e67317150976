"""How far the regular sweep of each tenant is, so that one worker is at it, and another can go on with it."""

from dataclasses import dataclass, field
from typing import Final

from hivemem_runtime.ledger.entity import record_entity


@dataclass(frozen=True, slots=True)
class Sweep:
    """Head and record alike, kept under everybody; its id is the tenant. Times are microseconds since 1970.

    `worker` is at it while it is `running`, and was last at `beat_at`; `cursor` is where it goes on, None at its
    beginning. `lost` are collections that it brings back, and `wanted` those that the next one will: until then not all
    is found in them.
    """

    began_at: int
    running: bool = False
    worker: str = ""
    beat_at: int = 0
    cursor: str | None = None
    wanted: list[str] = field(default_factory=list[str])
    lost: list[str] = field(default_factory=list[str])


SWEEP: Final = record_entity("sweep", Sweep, history=False)
