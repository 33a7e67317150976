"""The journal of the memory load: its writes, erasures, leases and expected refusals."""

from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple

from .. import journal


class Refusal(NamedTuple):
    """An expected refusal; the audit has it as well."""

    id: str
    error: str


class Grant(NamedTuple):
    """A lease as it was granted to an agent."""

    agent: str
    token: int


class Erased(NamedTuple):
    """A finished erasure, with the least and the most that it had to find."""

    id: str
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
    """Ids of writes that were refused on a retry after their worker had died: MongoDB may still carry out the first
    try."""

    resent: set[str] = field(default_factory=set[str])
    """Ids of acknowledged writes of which another copy may arrive later."""

    late: set[str] = field(default_factory=set[str])
    """Ids of durable commands that an erasure may overtake: each may be done before it or refused after it."""

    def summary(self) -> str:
        refused = ", ".join(
            f"{error} {count}" for error, count in Counter(each.error for each in self.refusals).items()
        )
        return (
            f"{journal.Journal.summary(self)}, {len(self.erased)} erasures, {len(self.grants)} leases, "
            f"refused: {refused or 'nothing'}"
        )
