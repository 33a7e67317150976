"""Cycles: each one is a key, whose versions are its steps."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from hivemem_contracts.identifiers import format_microseconds
from hivemem_contracts.subjects import Address
from hivemem_runtime.ledger.entity import Announcement, Index, Scalar, Stamp, record_entity
from hivemem_runtime.ledger.places import place_of

OPEN: Final = ("begun", "proposed")
"""The statuses of a cycle that has not ended."""


@dataclass(frozen=True, slots=True)
class CycleRecord:
    """A cycle after one of its steps; times are microseconds since 1970, but in `proposal` and `result`, which have the
    wire format."""

    agent_id: str
    number: int
    status: str
    session_id: str | None
    proposal: dict[str, Any] | None
    result: dict[str, Any] | None
    reason: str | None
    created_by: str
    created_at: int
    updated_at: int


def cycle_id(agent_id: str, number: int) -> str:
    return place_of(agent_id, str(number))


def cycle_fields(cycle: CycleRecord) -> dict[str, Any]:
    """Return the wire format of a cycle."""
    return {
        "agent_id": cycle.agent_id,
        "number": cycle.number,
        "status": cycle.status,
        "proposal": cycle.proposal,
        "result": cycle.result,
        "reason": cycle.reason,
        "session_id": cycle.session_id,
        "created_by": cycle.created_by,
        "created_at": format_microseconds(cycle.created_at),
        "updated_at": format_microseconds(cycle.updated_at),
    }


def announce_cycle(cycle: CycleRecord, stamp: Stamp) -> tuple[Announcement, ...]:
    number = str(cycle.number)
    address = Address((cycle.agent_id,), number)
    previous = stamp.version - 1 or None
    value = cycle_fields(cycle)
    return (Announcement("cycle", cycle.status, address, cycle.agent_id, stamp.version, previous, value, number),)


def _index_cycle(cycle: CycleRecord) -> Mapping[str, Scalar]:
    return {
        "agent_id": cycle.agent_id,
        "number": cycle.number,
        "status": cycle.status,
        "has_result": cycle.result is not None,
    }


CYCLE: Final = record_entity(
    "cycle",
    CycleRecord,
    announce=announce_cycle,
    indexed=_index_cycle,
    indexes=(
        Index("agent", ("agent_id",), "number"),
        Index("agent_status", ("agent_id", "status"), "number"),
        Index("agent_result", ("agent_id",), "number", only="has_result"),
    ),
    told_as={"cycle": place_of},
)
