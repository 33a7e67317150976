"""What a service brings to the harness: a load that keeps a journal, and a verifier that compares the fleet with it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from nats.aio.client import Client

from .fleet import Command, Outside
from .journal import Journal

Stopping = Callable[[], bool]


@dataclass(frozen=True)
class Circumstances:
    """What a load has to know of the strikes that it will meet."""

    seed: int
    late: bool
    """A request's first try can arrive after its second one: there are several workers, or connections stall."""
    stalled: bool
    """Workers are away for seconds while the bus takes durable commands. Many would take too long at the end."""
    skewed: bool
    """The clocks of the workers differ."""


class Trial(Protocol):
    """One run of a service's load and its verification."""

    @property
    def journal(self) -> Journal: ...

    async def load(self, clients: Sequence[Client], stopping: Stopping) -> None:
        """Write until `stopping` says so, and return when everything that was sent is acknowledged."""
        ...

    async def verify(self, client: Client) -> Sequence[str]:
        """Return what is wrong, each time with the name of the thing and its version."""
        ...


@dataclass(frozen=True)
class Service:
    begin: Callable[[Circumstances], Trial]
    workers: Sequence[Command]
    """One of each kind that it needs."""
    settings: Mapping[str, str] = field(default_factory=dict[str, str])
    outside: Outside | None = None
    """A server that it uses on MongoDB, and wherever such a server is to be away."""
