"""Agents: the definition of each, and how far it is with its cycles."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from hivemem_contracts.subjects import Address
from hivemem_runtime.ledger.entity import Announcement, Index, Scalar, Stamp, record_entity


@dataclass(frozen=True, slots=True)
class AgentDefinition:
    """A version of an agent's definition and status; times are microseconds since 1970.

    `version` is the agent's own count, which an imported agent brings along. `operation` is what the feed calls it.
    """

    operation: str
    version: int
    name: str | None
    directives: Any
    overrides: dict[str, Any]
    metadata: dict[str, Any]
    status: str
    created_by: str
    created_at: int
    updated_at: int


def announce_agent(definition: AgentDefinition, stamp: Stamp) -> tuple[Announcement, ...]:
    value = {
        "agent_id": stamp.id,
        "name": definition.name,
        "directives": definition.directives,
        "overrides": definition.overrides,
        "metadata": definition.metadata,
        "status": definition.status,
    }
    previous = stamp.version - 1 or None
    address = Address((stamp.id,))
    return (Announcement("agent", definition.operation, address, stamp.id, stamp.version, previous, value),)


def _index_agent(definition: AgentDefinition) -> Mapping[str, Scalar]:
    return {"status": definition.status}


AGENT: Final = record_entity(
    "agent",
    AgentDefinition,
    announce=announce_agent,
    indexed=_index_agent,
    indexes=(Index("all", (), None), Index("status", ("status",), None)),
    told_as={"agent": lambda namespace, key: namespace},
)


@dataclass(frozen=True, slots=True)
class Progress:
    """How many cycles an agent began, which one is open, and the newest lease that a request claimed."""

    cycles: int = 0
    open_cycle: int | None = None
    lease: dict[str, Any] | None = None


PROGRESS: Final = record_entity("progress", Progress, history=False)
