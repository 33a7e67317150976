"""The rules of importing a trace: a line is new, or it says what is there already."""

from dataclasses import replace
from typing import Any

from hivemem_agents.decisions.agents import require_agent
from hivemem_agents.decisions.cycles import progress_of
from hivemem_agents.entities.agents import AGENT, PROGRESS, AgentDefinition, Progress
from hivemem_agents.entities.cycles import CYCLE, OPEN, CycleRecord, cycle_id
from hivemem_contracts.agents.requests import AgentLine, CycleLine
from hivemem_contracts.errors import AlreadyExists
from hivemem_contracts.identifiers import microseconds_from_time
from hivemem_runtime.ledger.port import Append, Decision, Heads, value_of


def import_agent(heads: Heads, line: AgentLine) -> Decision:
    agent = AgentDefinition(
        "registered",
        line.version,
        line.name,
        line.directives,
        line.overrides,
        line.metadata,
        line.status,
        line.created_by,
        microseconds_from_time(line.created_at),
        microseconds_from_time(line.updated_at),
    )
    there = value_of(heads(AGENT, line.agent_id))
    if there is None:
        return [Append(AGENT, line.agent_id, agent)]
    if replace(there, operation=agent.operation) != agent:
        raise AlreadyExists(
            f"agent {line.agent_id!r} is registered with another definition: version {there.version}, not "
            f"{agent.version}",
            agent_id=line.agent_id,
        )
    return []


def import_cycle(heads: Heads, line: CycleLine) -> Decision:
    require_agent(heads, line.agent_id)
    cycle = CycleRecord(
        line.agent_id,
        line.number,
        line.status,
        line.session_id,
        _fields(line.proposal),
        _fields(line.result),
        line.reason,
        line.created_by,
        microseconds_from_time(line.created_at),
        microseconds_from_time(line.updated_at),
    )
    id = cycle_id(line.agent_id, line.number)
    there = value_of(heads(CYCLE, id))
    progress = progress_of(heads, line.agent_id)
    is_open = line.status in OPEN
    if there is not None and there != cycle:
        raise AlreadyExists(
            f"cycle {line.number} of agent {line.agent_id!r} is there with another content",
            agent_id=line.agent_id,
            number=line.number,
        )
    if there is not None:
        return []
    if is_open and progress.open_cycle is not None:
        raise AlreadyExists(
            f"cycle {line.number} of agent {line.agent_id!r} is open, and so is cycle {progress.open_cycle}",
            agent_id=line.agent_id,
            number=line.number,
        )
    after = Progress(max(progress.cycles, line.number), line.number if is_open else progress.open_cycle, progress.lease)
    return [Append(CYCLE, id, cycle), Append(PROGRESS, line.agent_id, after)]


def _fields(part: Any) -> dict[str, Any] | None:
    return None if part is None else part.model_dump(mode="json", by_alias=True)
