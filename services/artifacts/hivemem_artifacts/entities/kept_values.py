"""Deleted sessions whose large values are kept, because living forks share them."""

from dataclasses import dataclass
from typing import Final

from hivemem_runtime.ledger.entity import Index, record_entity


@dataclass(frozen=True, slots=True)
class KeptValues:
    """The large values of a deleted session. Head and record have the same shape; the id is the session's.

    Values saved through `until` are deleted once no fork shares them, in the name of the actor who deleted the session.
    Later ones belong to a new session with the same id.
    """

    until: int
    actor: str
    cause: str
    kept: bool = True


KEPT_VALUES: Final = record_entity(
    "kept_values",
    KeptValues,
    indexed=lambda values: {"until": values.until, "kept": values.kept},
    indexes=(Index("kept", (), "until", only="kept"),),
)
