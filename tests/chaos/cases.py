"""Which service meets which strikes on which store: a few cases in every test run, every sensible one in a soak."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from .agents.trial import AGENTS
from .artifacts.trial import ARTIFACTS
from .fleet import Command
from .memory.trial import MEMORY
from .registers.trial import REGISTERS
from .servers import Store
from .service import Circumstances, Service
from .sessions.trial import SESSIONS
from .strikes.kinds import KINDS, Kind
from .vectors.trial import VECTORS
from .windows.trial import WINDOWS
from .workflows.trial import WORKFLOWS

SERVICES: Final[Mapping[str, Service]] = {
    "sessions": SESSIONS,
    "memory": MEMORY,
    "artifacts": ARTIFACTS,
    "vectors": VECTORS,
    "agents": AGENTS,
    "windows": WINDOWS,
    "workflows": WORKFLOWS,
    "registers": REGISTERS,
}
_STALLING: Final = ("rolling", "partitions", "full-disk")


@dataclass(frozen=True)
class Case:
    service_name: str
    store: Store
    strikes: str
    workers: int = 1
    """The number of workers of each kind that the service needs."""
    share: float = 1.0
    """The share of the load time that this case takes."""

    @property
    def name(self) -> str:
        workers = f"-{self.workers}-workers" if self.workers > 1 else ""
        return f"{self.service_name}-{self.store}-{self.strikes}{workers}"

    @property
    def service(self) -> Service:
        return SERVICES[self.service_name]

    @property
    def kind(self) -> Kind:
        return KINDS[self.strikes]

    @property
    def commands(self) -> list[Command]:
        return [command for command in self.service.workers for _ in range(self.workers)]

    @property
    def has_outside(self) -> bool:
        return self.store == "mongo" or self.strikes == "outages"

    def circumstances(self, seed: int) -> Circumstances:
        stalled = self.strikes in _STALLING
        return Circumstances(seed, late=stalled or self.workers > 1, stalled=stalled, skewed=self.strikes == "clocks")


ALWAYS: Final = (
    Case("sessions", "embedded", "kills"),
    Case("sessions", "mongo", "kills", workers=3),
    Case("sessions", "three-nodes", "rolling"),
    Case("sessions", "three-members", "rolling", workers=2),
    Case("sessions", "mongo", "partitions", workers=2),
    Case("sessions", "embedded", "clocks", share=0.5),
    Case("sessions", "embedded", "full-disk"),
    Case("memory", "embedded", "kills", share=0.625),
    Case("memory", "mongo", "kills", workers=3, share=0.625),
    Case("memory", "mongo", "clocks", workers=3, share=0.5),
    Case("memory", "sqlite", "partitions", share=0.625),
    Case("memory", "mongo", "full-disk", share=0.625),
    Case("vectors", "embedded", "kills"),
    Case("vectors", "mongo", "kills"),
    Case("vectors", "sqlite", "outages"),
    Case("artifacts", "embedded", "kills"),
    Case("artifacts", "sqlite", "outages", share=1.5),
    Case("agents", "embedded", "kills", share=0.625),
    Case("windows", "embedded", "kills", share=0.625),
    Case("workflows", "embedded", "kills"),
    Case("registers", "embedded", "kills"),
    Case("registers", "three-members", "rolling", workers=2),
)


def all_cases() -> Iterator[Case]:
    """Yield all cases; the cases that always run come first."""
    yield from ALWAYS
    for service_name, service in SERVICES.items():
        for strikes, kind in KINDS.items():
            if (strikes == "outages" and service.outside is None) or (strikes == "clocks" and service.waits_by_clock):
                continue
            for store in kind.stores:
                case = Case(service_name, store, strikes, 1 if store in ("embedded", "sqlite") else 2)
                if case.name not in [each.name for each in ALWAYS]:
                    yield case
