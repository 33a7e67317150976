"""A service's part of the harness: a load with a journal, and a verifier that compares the fleet with it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from nats.aio.client import Client

from .fleet import Command, Outside
from .journal import Journal

Stopping = Callable[[], bool]


@dataclass(frozen=True)
class Circumstances:
    """The properties of the strikes that a load has to know."""

    seed: int
    late: bool
    """A request's first try can arrive after its second one, because there are several workers or stalled connections.
    """
    stalled: bool
    """Workers are away for seconds while the bus accepts durable commands, so a load of many would take too long at the
    end."""
    skewed: bool
    """The clocks of the workers differ."""


class Trial(Protocol):
    """One run of a service's load and its verification."""

    @property
    def journal(self) -> Journal: ...

    async def load(self, clients: Sequence[Client], stopping: Stopping) -> None:
        """Write until `stopping` says so, and return when every write is acknowledged."""
        ...

    async def verify(self, client: Client) -> Sequence[str]:
        """Return the findings, each with the name of its object and the version."""
        ...


@dataclass(frozen=True)
class Service:
    begin: Callable[[Circumstances], Trial]
    workers: Sequence[Command]
    """One command for each kind of worker that the service needs."""
    settings: Mapping[str, str] = field(default_factory=dict[str, str])
    outside: Outside | None = None
    """A server that it uses on MongoDB, and in the cases that take such a server away."""
    waits_by_clock: bool = False
    """Its load waits for times that a worker whose clock is hours ahead has set, so it cannot end while clocks jump."""
