"""The rules of importing a trace: a line is new, or it says what is there already."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any, Final

import orjson

from hivemem_agents.decisions.agents import DEFINED, require_agent
from hivemem_agents.decisions.cycles import progress_of
from hivemem_agents.entities.agents import AGENT, PROGRESS, AgentDefinition, Progress
from hivemem_agents.entities.cycles import CYCLE, OPEN, CycleRecord, cycle_id
from hivemem_contracts.agents.requests import AgentLine, CycleLine
from hivemem_contracts.errors import AlreadyExists, InvalidRequest
from hivemem_contracts.identifiers import microseconds_from_time
from hivemem_contracts.limits import AGENT_BYTES
from hivemem_contracts.sizes import check_size
from hivemem_runtime.ledger.port import Append, Decision, Heads, value_of

_PARTS: Final[Mapping[str, Collection[tuple[bool, bool]]]] = {
    "begun": ((False, False),),
    "proposed": ((True, False),),
    "completed": ((True, True),),
    "failed": ((True, True),),
    "abandoned": ((False, False), (True, False)),
}
"""For each status, whether a cycle has a proposal and a result."""


def import_agent(heads: Heads, line: AgentLine) -> Decision:
    fields = line.model_dump(mode="json", include=set(DEFINED))
    check_size("definition", len(orjson.dumps(fields)), AGENT_BYTES)
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
    if there is not None and there != cycle:
        raise AlreadyExists(
            f"cycle {line.number} of agent {line.agent_id!r} is there with another content",
            agent_id=line.agent_id,
            number=line.number,
        )
    if there is not None:
        return []
    if progress.open_cycle is not None:
        raise AlreadyExists(
            f"agent {line.agent_id!r} has not ended cycle {progress.open_cycle}, so cycle {line.number} cannot follow",
            agent_id=line.agent_id,
            number=line.number,
        )
    _require_fit(line, progress)
    after = Progress(line.number, line.number if line.status in OPEN else None, progress.lease)
    return [Append(CYCLE, id, cycle), Append(PROGRESS, line.agent_id, after)]


def _require_fit(line: CycleLine, progress: Progress) -> None:
    """Refuse a cycle that no agent could have come to by its steps."""
    if line.number != progress.cycles + 1:
        raise InvalidRequest(
            f"number: agent {line.agent_id!r} has {progress.cycles} cycles, so {progress.cycles + 1} comes next, "
            f"got {line.number}",
            field="number",
        )
    parts = (line.proposal is not None, line.result is not None)
    if parts not in _PARTS[line.status]:
        raise InvalidRequest(f"status: {line.status!r} does not fit the proposal and the result", field="status")
    for name, part in (("proposal", line.proposal), ("result", line.result)):
        check_size(name, len(orjson.dumps(_fields(part))), AGENT_BYTES)


def _fields(part: Any) -> dict[str, Any] | None:
    return None if part is None else part.model_dump(mode="json", by_alias=True)
