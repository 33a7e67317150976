"""Definitions of state machines. Each version is a record."""

from dataclasses import dataclass
from typing import Any, Final

from hivemem_runtime.ledger.entity import Entity


@dataclass(frozen=True, slots=True)
class MachineHead:
    definition: dict[str, Any]
    created_at: int
    created_by: str


@dataclass(frozen=True, slots=True)
class MachineRecord:
    definition: dict[str, Any]


MACHINE: Final = Entity(
    name="machine",
    head=MachineHead,
    record=MachineRecord,
    evolve=lambda head, record, stamp: MachineHead(record.definition, stamp.at, stamp.actor),
    announce=lambda record, stamp: (),
    indexed=lambda head: {},
    snapshot_every=1,
)
