"""Records: which memories are records of an agent. Their content stays with the memory service."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from hivemem_runtime.ledger.entity import Index, Scalar, record_entity


@dataclass(frozen=True, slots=True)
class RecordEntry:
    """A record: its memory's key in the agent's namespace, and what lists and pruning ask for.

    `at` is when it was recorded first, in microseconds since 1970."""

    agent_id: str
    key: str
    kind: str
    number: int | None
    importance: float | None
    by: str
    at: int


def _index_record(record: RecordEntry) -> Mapping[str, Scalar]:
    return {name: getattr(record, name) for name in ("agent_id", "kind", "number", "at")}


RECORD: Final = record_entity(
    "record",
    RecordEntry,
    indexed=_index_record,
    indexes=(
        Index("agent", ("agent_id",), "at"),
        Index("agent_kind", ("agent_id", "kind"), "at"),
        Index("agent_cycle", ("agent_id", "number"), "at"),
    ),
    history=False,
)


@dataclass(frozen=True, slots=True)
class Pruning:
    """What one request pruned, in the wire format. The versions of an agent's key are its prunings."""

    answer: dict[str, Any]


PRUNING: Final = record_entity("pruning", Pruning)
