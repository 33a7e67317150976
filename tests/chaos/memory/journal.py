"""What the load of memories sent; besides its writes the erasures, the leases, and what was refused for a reason."""

from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple

from .. import journal


class Refusal(NamedTuple):
    """A no that had to be expected; the audit has it as well."""

    id: str
    error: str


class Grant(NamedTuple):
    """A lease as it was granted to somebody."""

    agent: str
    token: int


class Erased(NamedTuple):
    """An erasure that was waited for, and what it had to find at least and at most."""

    agent: str
    receipt: str
    namespace: str
    entries: tuple[int, int]
    versions: tuple[int, int]


@dataclass(slots=True)
class Journal(journal.Journal):
    refusals: list[Refusal] = field(default_factory=list[Refusal])
    grants: list[Grant] = field(default_factory=list[Grant])
    erased: list[Erased] = field(default_factory=list[Erased])
    unsure: set[str] = field(default_factory=set[str])
    """Ids of writes that were refused when they were sent again, after a worker had died over them: what it had sent
    to MongoDB may be carried out behind that."""

    late: set[str] = field(default_factory=set[str])
    """Ids of durable commands that an erasure overtook: each may have been done before it, or refused after it."""

    def summary(self) -> str:
        refused = ", ".join(
            f"{error} {count}" for error, count in Counter(each.error for each in self.refusals).items()
        )
        return (
            f"{journal.Journal.summary(self)}, {len(self.erased)} erasures, {len(self.grants)} leases, "
            f"refused: {refused or 'nothing'}"
        )
